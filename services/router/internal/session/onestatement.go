package session

import (
	"bytes"
	"encoding/binary"

	"github.com/pgpilot/pgpilot/libs/wire"
	"github.com/pgpilot/pgpilot/services/router/internal/settings"
)

// oneStatement is a sequence that parses, if it does, and runs one statement about a
// block, without parameters and as the unnamed portal, or only parses it.
type oneStatement struct {
	s *Session
	// parsed says that it begins with a Parse, of which the others are the parts.
	parsed           bool
	name, body, text []byte
	block            settings.Block
	// asked are the types of its messages, of which there are count; ParameterDescription
	// stands for a Describe of the statement.
	asked [8]byte
	count int
	// size is its length in bytes.
	size int
	// known says that it is known what is run, bound and ran how far that is.
	known, bound, ran bool
}

// reading is how far a sequence is one.
type reading uint8

const (
	another    reading = iota // it is none
	unfinished                // so far
	finished
)

// read looks at the messages at the start of b.
func (o *oneStatement) read(b []byte) reading {
	for {
		typ, total, err := wire.Request(b[o.size:])
		switch {
		case err != nil || o.count == len(o.asked) || o.ran && total > 0 && typ != wire.Sync:
			return another
		case total == 0 || total > len(b)-o.size:
			if !o.known {
				return another // as yet
			}
			return unfinished
		}
		msg := b[o.size : o.size+total]
		ok := false
		switch typ {
		case wire.Parse:
			ok = o.parse(msg)
		case wire.Describe:
			ok = o.describe(msg, &typ)
		case wire.Bind:
			ok = o.bind(msg)
		case wire.Execute:
			portal, _, is := cutString(msg[wire.HeaderSize:])
			ok = is && o.bound && len(portal) == 0 && total == wire.HeaderSize+1+4
			o.ran = ok
		case wire.Sync:
			o.size += total
			if (o.ran || o.parsed && !o.bound) && total == wire.HeaderSize {
				return finished
			}
		}
		if !ok {
			return another
		}
		o.size += total
		o.asked[o.count] = typ
		o.count++
	}
}

func (o *oneStatement) parse(msg []byte) bool {
	name, text, _, ok := splitParse(msg)
	if !ok || o.known || len(name) > maxName || len(name) > 0 && o.s.named[string(name)] != nil {
		return false
	}
	body := msg[wire.HeaderSize+len(name)+1:]
	if o.s.repeats(name, body) {
		return false // it reads
	}
	o.parsed, o.known, o.name, o.text, o.body = true, true, name, text, body
	return o.understood(body, len(text))
}

func (o *oneStatement) describe(msg []byte, as *byte) bool {
	kind, name, ok := splitTarget(msg)
	if ok && kind == 'S' {
		*as = wire.ParameterDescription
		return o.known && bytes.Equal(name, o.name)
	}
	return ok && kind == 'P' && o.bound && len(name) == 0
}

func (o *oneStatement) bind(msg []byte) bool {
	portal, name, rest, ok := splitBind(msg)
	if !ok || o.bound || len(portal) > 0 || !noParameters(rest) {
		return false
	}
	o.bound = true
	if o.known {
		return bytes.Equal(name, o.name)
	}
	o.known, o.name = true, name
	return o.prepared(name)
}

// prepared reports whether the client has prepared one under the name.
func (o *oneStatement) prepared(name []byte) bool {
	st := o.s.statement(name)
	return st != nil && !st.raw && st.local.kind == notLocal && o.understood(st.body, st.text)
}

// understood reads the body of a Parse.
func (o *oneStatement) understood(body []byte, text int) (ok bool) {
	if len(body) != text+1+2 || body[text+1] != 0 || body[text+2] != 0 {
		return false // with types of parameters
	}
	o.block, ok = settings.ParseBlock(body[:text])
	return ok
}

// noParameters reports whether the end of a Bind, behind the names, has no parameters
// and at most one format for each of its lists.
func noParameters(b []byte) bool {
	for i := range 3 {
		if len(b) < 2 {
			return false
		}
		n := int(binary.BigEndian.Uint16(b))
		b = b[2:]
		if n > 1 || n > 0 && i < 2 || len(b) < 2*n {
			return false
		}
		for range n {
			if format := binary.BigEndian.Uint16(b); format > 1 {
				return false
			}
			b = b[2:]
		}
	}
	return len(b) == 0
}

// opens reports whether a sequence goes on behind the BEGIN of a transaction that may be a
// replica's, as drivers send it: what follows is routed by itself.
func (o *oneStatement) opens() bool {
	return o.ran && o.block.Kind == settings.BlockBegin && o.s.onlyReads(o.block.Modes)
}

// sequenceHere answers what has been read of a sequence of the extended protocol, to its
// end or up to a message that is another statement's, and gives its length.
func (s *Session) sequenceHere(o *oneStatement, whole bool) int {
	if o.parsed {
		s.prepareHere(o.name, o.body, o.text)
	}
	s.seq.scanned, s.known = 0, false
	answer, tag := s.scratch, ""
	if o.ran {
		tag = s.runBlock(&o.block)
		s.block.portal = true
	}
	for _, typ := range o.asked[:o.count] {
		switch typ {
		case wire.Parse:
			answer = append(answer, wire.ParseComplete, 0, 0, 0, 4)
		case wire.ParameterDescription:
			answer = append(answer, wire.ParameterDescription, 0, 0, 0, 6, 0, 0, wire.NoData, 0, 0, 0, 4)
		case wire.Bind:
			answer = append(answer, wire.BindComplete, 0, 0, 0, 4)
		case wire.Describe:
			answer = append(answer, wire.NoData, 0, 0, 0, 4)
		case wire.Execute:
			answer = appendComplete(answer, tag)
		}
	}
	if whole {
		s.sayDone(answer)
		return o.size
	}
	from := len(s.scratch)
	s.scratch = answer
	s.toClient(from)
	s.idle()
	return o.size
}

// prepareHere notes a statement that no server has parsed yet.
func (s *Session) prepareHere(name, body, text []byte) {
	st := &Statement{}
	st.set(body, len(text), nil, s.environment())
	st.verdict = s.seq.parses[0].verdict
	st.cmds = s.commands(text, st.verdict)
	if len(name) > 0 {
		st.name(string(name))
	}
	s.define(string(name), st)
}
