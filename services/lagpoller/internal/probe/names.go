package probe

import (
	"fmt"
	"strings"
	"time"
)

// Names are databases and roles by name.
type Names struct{ Databases, Roles []string }

// Missing gives those of the names that the server does not have.
func (c *Conn) Missing(of Names, timeout time.Duration) (missing Names, err error) {
	var values []string
	for _, name := range of.Databases {
		values = append(values, "('d', "+literal(name)+")")
	}
	for _, name := range of.Roles {
		values = append(values, "('r', "+literal(name)+")")
	}
	if values == nil {
		return missing, nil
	}
	err = c.exchange(time.Now().Add(timeout), func(_ int, v [][]byte) error {
		switch {
		case len(v) != 2:
			return fmt.Errorf("the names have %d columns instead of 2", len(v))
		case string(v[0]) == "d":
			missing.Databases = append(missing.Databases, string(v[1]))
		default:
			missing.Roles = append(missing.Roles, string(v[1]))
		}
		return nil
	}, `SELECT kind, name FROM (VALUES `+strings.Join(values, ", ")+`) AS named (kind, name)
 WHERE NOT CASE kind WHEN 'd' THEN EXISTS (SELECT FROM pg_catalog.pg_database WHERE datname::text = name)
 ELSE EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname::text = name) END`)
	if err != nil {
		return Names{}, fmt.Errorf("ask which names there are: %w", err)
	}
	return missing, nil
}

// literal writes a string as SQL, whatever standard_conforming_strings is (PostgreSQL
// documentation, "SQL Syntax: Lexical Structure").
func literal(s string) string {
	quoted := "'" + strings.ReplaceAll(strings.ReplaceAll(s, `\`, `\\`), "'", "''") + "'"
	if strings.Contains(s, `\`) {
		return " E" + quoted
	}
	return quoted
}
