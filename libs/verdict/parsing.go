package verdict

import "strings"

// AtParse reports whether a setting may matter when a statement is parsed: where names lead,
// and what constants are taken for. Others matter only when it runs. An empty name is one
// that is not known.
func AtParse(name string) bool { return !strings.Contains(name, ".") && !laterOnly[name] }

// Stays reports whether something stays of a setting that is made until the end of the transaction:
// what random() will give, and of servers before 15.9, 16.5 and 17.1 that session_authorization has
// taken away the role (their release notes).
func Stays(name string) bool { return Seed(name) || name == "session_authorization" }

// Seed reports whether a parameter is that by which random() goes on, which no reset removes
// (PostgreSQL documentation, "Mathematical Functions and Operators").
func Seed(name string) bool { return strings.EqualFold(name, "seed") }

// laterOnly are common settings that matter only when a statement runs. Those of
// extensions and of applications, with a dot in their names, are others.
var laterOnly = map[string]bool{
	"application_name": true, "bytea_output": true, "client_min_messages": true, "deadlock_timeout": true,
	"default_transaction_deferrable": true, "default_transaction_isolation": true, "default_transaction_read_only": true,
	"extra_float_digits": true, "idle_in_transaction_session_timeout": true, "idle_session_timeout": true,
	"lock_timeout": true, "maintenance_work_mem": true, "statement_timeout": true, "synchronous_commit": true,
	"transaction_timeout": true, "work_mem": true,
}
