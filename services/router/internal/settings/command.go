package settings

// Kind says what a statement does to settings.
type Kind uint8

const (
	// None: nothing that outlasts its transaction is changed.
	None Kind = iota
	// Set: the changes hold for the session, once the transaction commits.
	Set
	// Local: they hold until the transaction ends.
	Local
	// Begin: a transaction block.
	Begin
	// Commit: the transaction's end.
	Commit
	// Rollback: the transaction's end; nothing of it stays.
	Rollback
	// Savepoint, Release and RollbackTo: the subtransaction called Name.
	Savepoint
	Release
	RollbackTo
	// Listen and Unlisten: the channel called Name, of Unlisten all of them without
	// one. They take effect when the transaction commits.
	Listen
	Unlisten
	// Prepare: PREPARE TRANSACTION, which is as good as COMMIT for settings.
	Prepare
	// Other: nobody knows what else it does, but it is none of these.
	Other
)

// Command is what one statement does to settings.
type Command struct {
	Kind Kind
	// Name is the savepoint's or the channel's.
	Name string
	// Changes are in order.
	Changes []Change
	// Besides says of a Local, or None, that the statement does something else, too.
	Besides bool
}

// Change is one parameter's.
type Change struct {
	// Name is the parameter's, in lower case; empty for all of them but the role.
	Name string
	// SQL is what follows the word SET to set it, or, of one of the router's own
	// parameters, its value. Empty: it gets back the value that the connection, or the
	// session, began with.
	SQL string
}

// Sets reports whether any of the commands changes a parameter.
func Sets(cs []Command) bool {
	for i := range cs {
		if len(cs[i].Changes) > 0 {
			return true
		}
	}
	return false
}

// AtParse reports whether any of the commands changes something on which it may depend
// what a statement means when it is parsed, where these parameters are set.
func AtParse(cs []Command, set *List) bool {
	for i := range cs {
		for _, c := range cs[i].Changes {
			if c.Name == "" && set.AtParse() != (Hash{}) || c.Name != "" && !later(c.Name) {
				return true
			}
		}
	}
	return false
}

// Listens reports whether any of the commands is a LISTEN.
func Listens(cs []Command) bool {
	for i := range cs {
		if cs[i].Kind == Listen {
			return true
		}
	}
	return false
}

// Only reports whether the commands do nothing but change parameters or channels.
func Only(cs []Command) bool {
	for i := range cs {
		switch cs[i].Kind {
		case Set, Local, Listen, Unlisten:
		default:
			return false
		}
		if cs[i].Besides {
			return false
		}
	}
	return len(cs) > 0
}
