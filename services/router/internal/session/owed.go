package session

import (
	"github.com/pgpilot/pgpilot/libs/wire"
	"github.com/pgpilot/pgpilot/services/router/internal/settings"
)

// owed is one answer. It is small: with a statement of the extended protocol five are added
// and removed.
type owed struct {
	// typ is the type of the client message.
	typ byte
	// how says what becomes of the answer.
	how disposition
	// scope says which statements the message changes.
	scope scope
	// undoes says that name stood for was (nil: for nothing) before the message. Of an
	// Execute, name may be the portal's.
	undoes bool
	// portal says of a Describe that it is of a portal, which runs st.
	portal bool
	// begins says that it is a message of the session's own BEGIN.
	begins bool
	// part is how much of what its portal gives an Execute asks for, warns that it is a SET
	// LOCAL outside of a transaction block: of one that the router executes itself.
	part  portion
	warns bool
	// copies says that it is an Execute of what may copy in.
	copies bool
	// stray is the type of a message that waits until it is known whether a copy goes on, which
	// the entry's message asks.
	stray byte

	name string
	was  *Statement
	// st is the statement of a Parse or a Bind, and of a Describe of it or of a portal.
	st *Statement
	// server is the name under which the statement of a Parse, Bind or Describe was sent: it
	// may get another one before the answer has come.
	server string
	// cmds is what the statements of a Query, or that of an Execute, do to settings,
	// as far as they have not been executed.
	cmds []settings.Command
	// more is what few entries have, nil for none of it.
	more *further
}

// further is what is to be known of an entry whose message does something out of the ordinary.
type further struct {
	// all, if it is not nil, is what all names stood for before the message.
	all map[string]*Statement
	// prepares are the names that the PREPAREs of a Query give, as far as they have not
	// been executed; the entry's st is what the only one of them makes, if that is followed.
	prepares []string
	// drops are the names in the DEALLOCATEs of a Query, as far as they have not been executed.
	drops []string
	// gives is the name under which the message gives the connection a statement, unseen, or
	// takes from it the one that it had.
	gives string
	had   *underName
	// among are the statements of a Query that the server has not been sent.
	among *among
	// instead is shown in place of the error that the message was made to cause.
	instead *Problem
}

// prepares, drops and precedes note of a Query what it has of that.
func (o *owed) prepares(names []string) {
	if len(names) > 0 {
		o.besides().prepares = names
	}
}

func (o *owed) drops(names []string) {
	if len(names) > 0 {
		o.besides().drops = names
	}
}

func (o *owed) precedes(parts *among) {
	if parts != nil {
		o.besides().among = parts
	}
}

// preparesLater reports whether names are given by an Execute, once it is answered.
func (o *owed) preparesLater() bool {
	return o.more != nil && o.typ == wire.Execute && len(o.more.prepares) > 0
}

// besides gives what few entries have, to be changed.
func (o *owed) besides() *further {
	if o.more == nil {
		o.more = &further{}
	}
	return o.more
}

// also gives what few entries have. It is not changed.
func (o *owed) also() *further {
	if o.more == nil {
		return &further{}
	}
	return o.more
}

// scope says which statements a message changes, of the client or on the server.
type scope uint8

const (
	none scope = iota
	unnamedScope
	namedScope
	scopes
)

// disposition is what becomes of an answer.
type disposition uint8

const (
	// forward: the client asked.
	forward disposition = iota
	// hide: the session asked for itself.
	hide
	// made: the server is not asked; the session answers when its turn comes.
	made
)
