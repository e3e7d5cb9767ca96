package verdict

import (
	"bytes"

	"github.com/pgpilot/pgpilot/libs/sqltoken"
)

// Unjudged is the verdict on a text that nobody has judged, for a server of that release: a
// write of which nothing is proven. r is what a Scan of it gave, zero if it failed. Unless its words rule that out, it leaves something in the
// server session for later statements to find: a lock, a setting or a temporary table that went with
// the connection would be missed without a word. A function of the database's own may still do so unseen;
// its connection is cleaned before another session gets it.
func Unjudged(text []byte, r sqltoken.Result, serverMajor int) Verdict {
	v := Unclassified()
	if r.Statements != 1 || !passes(r.First) {
		v.Effects |= Session
	}
	v.Effects |= left(text, serverMajor)
	return v
}

// passes reports whether statements that begin with this word leave nothing behind by themselves.
func passes(first sqltoken.Keyword) bool {
	switch first {
	case sqltoken.Select, sqltoken.Insert, sqltoken.Update, sqltoken.Delete, sqltoken.Merge,
		sqltoken.Values, sqltoken.Table, sqltoken.With, sqltoken.Begin, sqltoken.Start, sqltoken.Commit,
		sqltoken.End, sqltoken.Rollback, sqltoken.Abort, sqltoken.Savepoint, sqltoken.Release,
		sqltoken.Truncate, sqltoken.Vacuum, sqltoken.Analyze, sqltoken.Copy, sqltoken.Show, sqltoken.Explain,
		sqltoken.Alter, sqltoken.Drop, sqltoken.Comment, sqltoken.Grant, sqltoken.Revoke, sqltoken.Reindex,
		sqltoken.Refresh, sqltoken.Cluster, sqltoken.Lock, sqltoken.Notify, sqltoken.Checkpoint:
		return true
	}
	return false
}

// left gives what the names in the text may leave in the session, wherever they stand.
func left(text []byte, serverMajor int) (e Effect) {
	lexer := sqltoken.NewLexer(text, serverMajor)
	for {
		t, err := lexer.Next()
		if err != nil {
			return e | Session
		}
		word := text[t.Start:t.End]
		switch t.Kind {
		case sqltoken.EOF:
			return e
		case sqltoken.UnicodeIdent: // may spell any of them
			return e | Session
		case sqltoken.QuotedIdent:
			e |= leaves(word[1 : len(word)-1])
		case sqltoken.Word:
			var folded [maxName]byte
			if len(word) <= maxName {
				e |= leaves(folded[:lower(folded[:], word)])
			}
		}
	}
}

// maxName is more than the longest of the names that leaves knows.
const maxName = 64

// lower writes word folded for ASCII, as PostgreSQL folds what is not quoted.
func lower(dst, word []byte) (n int) {
	for i, b := range word {
		if 'A' <= b && b <= 'Z' {
			b |= 0x20
		}
		dst[i] = b
	}
	return len(word)
}

// leaves gives what is left by a function of this name, of PostgreSQL or of an extension it comes
// with, or where the name is a word that makes a table temporary.
func leaves(name []byte) Effect {
	switch string(name) {
	case "nextval":
		return Sequences
	case "load":
		return Indelible // at the beginning; elsewhere it costs a connection
	case "setseed", "pg_backup_start", "pg_start_backup", "pg_replication_origin_session_setup",
		"pg_create_logical_replication_slot", "pg_create_physical_replication_slot",
		"pg_copy_logical_replication_slot", "pg_copy_physical_replication_slot",
		"dblink_connect", "dblink_connect_u":
		return Session | Indelible
	case "temp", "temporary",
		"set_config", "setval", "currval", "lastval",
		"pg_advisory_lock", "pg_advisory_lock_shared", "pg_try_advisory_lock", "pg_try_advisory_lock_shared",
		"pg_advisory_unlock", "pg_advisory_unlock_shared", "pg_advisory_unlock_all",
		"pg_backup_stop", "pg_stop_backup", "pg_replication_origin_session_reset",
		"query_to_xml", "query_to_xmlschema", "query_to_xml_and_xmlschema", "cursor_to_xml", "cursor_to_xmlschema",
		"ts_stat", "ts_rewrite", "set_limit":
		return Session
	}
	if bytes.HasPrefix(name, []byte("pg_temp")) || bytes.HasPrefix(name, []byte("dblink")) {
		return Session
	}
	return 0
}
