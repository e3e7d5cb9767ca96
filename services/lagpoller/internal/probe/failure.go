package probe

import (
	"errors"
	"fmt"
	"net"

	"github.com/jackc/pgx/v5/pgconn"
)

// SQLSTATE codes (documentation, appendix "PostgreSQL Error Codes").
const (
	tooManyConnections    = "53300"
	insufficientPrivilege = "42501"
	invalidPassword       = "28P01"
)

// Full reports whether a server refused the connection only because it has no
// slot left. That says nothing about its health.
func Full(err error) bool { return code(err) == tooManyConnections }

// Refused reports whether the server answered, with an error, and stays connected.
func Refused(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.SeverityUnlocalized == "ERROR"
}

func code(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}

// explain turns the refusals an operator can cure into what to do about them.
func (t Target) explain(err error) error {
	switch code(err) {
	case insufficientPrivilege:
		return fmt.Errorf("monitor.user %q may not ask for positions: run ALTER ROLE %[1]q REPLICATION on the primary (%w)", t.User, cause(err))
	case invalidPassword:
		return fmt.Errorf("monitor.user %q was refused: check its password in the configuration (%w)", t.User, cause(err))
	case tooManyConnections:
		return fmt.Errorf("no connection is free: raise max_connections or max_wal_senders on the server (%w)", cause(err))
	}
	return fmt.Errorf("connect: %w", cause(err))
}

// cause leaves out the list of everything that was tried: it is one server, and
// with or without encryption the reason is the same.
func cause(err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg
	}
	var op *net.OpError
	if errors.As(err, &op) {
		return op
	}
	var attempts interface{ Unwrap() []error }
	if errors.As(err, &attempts) {
		if list := attempts.Unwrap(); len(list) > 0 {
			return list[len(list)-1]
		}
	}
	return err
}
