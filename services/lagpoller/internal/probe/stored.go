package probe

import (
	"fmt"
	"time"
)

// storedQuery orders what it reads: the same is the same on every server and at any time.
const storedQuery = `SELECT pg_catalog.hashtextextended(pg_catalog.string_agg(
 pg_catalog.concat_ws(' ', setdatabase, setrole, setconfig), ' ' ORDER BY setdatabase, setrole), 0)
 FROM pg_catalog.pg_db_role_setting`

// StoredSettings identifies what the server has stored for roles and databases (PostgreSQL
// documentation, "pg_db_role_setting"): it is another one when that has changed. It gives "none"
// where nothing is stored, and an error that Refused tells where the monitor may not read it.
func (c *Conn) StoredSettings(timeout time.Duration) (digest string, err error) {
	digest = "none"
	err = c.exchange(time.Now().Add(timeout), func(_ int, v [][]byte) error {
		if len(v) != 1 {
			return fmt.Errorf("the digest has %d columns instead of 1", len(v))
		}
		if v[0] != nil {
			digest = string(v[0])
		}
		return nil
	}, storedQuery)
	if err != nil {
		return "", fmt.Errorf("ask for the settings of roles: %w", err)
	}
	return digest, nil
}
