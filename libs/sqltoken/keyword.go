package sqltoken

// Keyword is a word that begins a statement, or that follows such a word.
type Keyword uint8

// The keywords told apart. NoKeyword is anything else, also no word at all.
const (
	NoKeyword Keyword = iota
	Abort
	All
	Alter
	Analyze
	Begin
	Call
	Checkpoint
	Close
	Cluster
	Comment
	Commit
	Copy
	Create
	Deallocate
	Declare
	Delete
	Discard
	Do
	Drop
	End
	Execute
	Explain
	Fetch
	Grant
	Import
	Insert
	Listen
	Load
	Local
	Lock
	Merge
	Move
	Notify
	Plans
	Prepare
	Prepared
	Read
	Reassign
	Refresh
	Reindex
	Release
	Reset
	Revoke
	Role
	Rollback
	Savepoint
	Security
	Select
	Sequences
	Session
	Set
	Show
	Start
	Table
	Temp
	Temporary
	Time
	To
	Transaction
	Truncate
	Unlisten
	Update
	Vacuum
	Values
	With
	Work
	keywordCount
)

var keywordTexts = [keywordCount]string{
	Abort: "abort", All: "all", Alter: "alter", Analyze: "analyze", Begin: "begin", Call: "call",
	Checkpoint: "checkpoint", Close: "close", Cluster: "cluster", Comment: "comment", Commit: "commit",
	Copy: "copy", Create: "create", Deallocate: "deallocate", Declare: "declare", Delete: "delete",
	Discard: "discard", Do: "do", Drop: "drop", End: "end", Execute: "execute", Explain: "explain",
	Fetch: "fetch", Grant: "grant", Import: "import", Insert: "insert", Listen: "listen", Load: "load",
	Local: "local", Lock: "lock", Merge: "merge", Move: "move", Notify: "notify", Plans: "plans",
	Prepare: "prepare", Prepared: "prepared", Read: "read", Reassign: "reassign", Refresh: "refresh",
	Reindex: "reindex", Release: "release", Reset: "reset", Revoke: "revoke", Role: "role",
	Rollback: "rollback", Savepoint: "savepoint", Security: "security", Select: "select",
	Sequences: "sequences", Session: "session", Set: "set", Show: "show", Start: "start",
	Table: "table", Temp: "temp", Temporary: "temporary", Time: "time", To: "to",
	Transaction: "transaction", Truncate: "truncate", Unlisten: "unlisten", Update: "update",
	Vacuum: "vacuum", Values: "values", With: "with", Work: "work",
}

// String returns the keyword in lower case, "" for NoKeyword.
func (k Keyword) String() string {
	if k < keywordCount {
		return keywordTexts[k]
	}
	return ""
}

// maxKeyword is the length of the longest keyword told apart.
const maxKeyword = len("transaction")

// LookupKeyword returns the keyword that an unquoted word is, in any case.
func LookupKeyword(word []byte) Keyword {
	if len(word) > maxKeyword || len(word) == 0 {
		return NoKeyword
	}
	var buf [maxKeyword]byte
	for i, c := range word {
		buf[i] = fold[c]
	}
	folded := buf[:len(word)]
	if string(folded) == "select" {
		return Select
	}
	lo, hi := Abort, keywordCount
	for lo < hi {
		mid := (lo + hi) / 2
		if keywordTexts[mid] < string(folded) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo < keywordCount && keywordTexts[lo] == string(folded) {
		return lo
	}
	return NoKeyword
}

// hasTemplate reports whether statements that begin with k, behind nested opening parentheses or
// not, may be keyed by template. Everything else may hold constants that decide what it does.
func (k Keyword) hasTemplate(parenthesised bool) bool {
	switch k {
	case Select, Values, Table, With:
		return true
	case Insert, Update, Delete, Merge:
		return !parenthesised
	}
	return false
}

// equalFold reports whether an unquoted word is the lower-case ASCII word want.
func equalFold(word []byte, want string) bool {
	if len(word) != len(want) {
		return false
	}
	for i, c := range word {
		if fold[c] != want[i] {
			return false
		}
	}
	return true
}
