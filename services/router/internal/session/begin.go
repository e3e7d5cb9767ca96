package session

import (
	"bytes"
	"encoding/binary"

	"github.com/pgpilot/pgpilot/libs/wire"
	"github.com/pgpilot/pgpilot/services/router/internal/settings"
)

// queryBlock answers a simple query that is about a block which no server has or needs
// to have, and reports whether it was one.
func (s *Session) queryBlock(text []byte) bool {
	if s.block.here() && len(bytes.Trim(text, " \t\r\n\f\v;")) == 0 {
		s.simpleHere()
		s.sayDone(append(s.scratch, wire.EmptyQueryResponse, 0, 0, 0, 4))
		return true
	}
	b, ok := settings.ParseBlock(text)
	if !ok || !s.emulates(&b) {
		return false
	}
	s.simpleHere()
	s.sayDone(appendComplete(s.scratch, s.runBlock(&b)))
	return true
}

// simpleHere notes a simple query that no server gets: it ends the unnamed statement and
// portal all the same.
func (s *Session) simpleHere() {
	s.unnamed = nil
	s.endUnnamedPortal()
}

// sayDone ends a request that has been answered here; b is the scratch with the answer.
func (s *Session) sayDone(b []byte) {
	from := len(s.scratch)
	s.scratch = wire.AppendReadyForQuery(b, s.status)
	s.toClient(from)
	s.idle()
}

// emulates reports whether a statement about a block can be executed here.
func (s *Session) emulates(b *settings.Block) bool {
	switch s.block.state {
	case opened:
		// Of the first a server would warn, and refuse the second.
		return b.Kind != settings.BlockBegin && (b.Kind != settings.BlockSet || !s.block.ran)
	case fallen:
		return b.Kind == settings.BlockCommit || b.Kind == settings.BlockRollback
	case begun:
		return s.block.replica && (b.Kind == settings.BlockCommit || b.Kind == settings.BlockRollback)
	}
	return b.Kind == settings.BlockBegin && s.lazy()
}

// runBlock executes it and gives its command tag.
func (s *Session) runBlock(b *settings.Block) string {
	tag := b.Tag
	if s.block.state == noBlock {
		s.block.limit, _ = s.idleLimit()
	}
	if s.block.replica {
		s.leaveReplica()
	}
	switch {
	case b.Kind == settings.BlockBegin, b.Kind == settings.BlockSet:
		s.block.modes = b.Under(s.block.modes)
	case s.block.state == fallen:
		tag = "ROLLBACK"
		fallthrough
	default:
		s.endPortals()
		s.endSettings(b, tag)
		if !b.Chain {
			s.block, s.status = block{}, wire.Idle
			return tag
		}
		s.block.ran, s.block.on = false, 0
	}
	s.block.state, s.status = opened, wire.InTransaction
	return tag
}

// endSettings ends what has been set in a block that no server has: parameters of the
// router's own.
func (s *Session) endSettings(b *settings.Block, tag string) {
	if !s.set.Begun() {
		s.set.Ready(true)
		return
	}
	kind := settings.Commit
	if b.Kind == settings.BlockRollback {
		kind = settings.Rollback
	}
	s.set.Ran(&settings.Command{Kind: kind}, []byte(tag))
	s.set.Ready(true)
	s.changed()
}

// sendBegin begins the block on the granted connection, in front of the statement at the
// head. They leave in one write, as messages of the extended protocol: if BEGIN fails,
// the server discards what is behind it up to the next Sync.
func (s *Session) sendBegin(run *forwarding, query bool) {
	if s.block.state != opened {
		return
	}
	s.block.state, s.block.unsure, s.block.replica = begun, true, s.at == ReplicaSlot
	s.held[s.at].statements.dropUnnamed()
	texts := [...][]byte{s.block.modes.AppendBegin(nil), snapshot}
	sent := texts[:1]
	if s.block.ran {
		sent = texts[:]
	}
	for range sent {
		for _, typ := range [...]byte{wire.Parse, wire.Bind, wire.Execute} {
			s.owed.sent(owed{typ: typ, how: hide, begins: true})
		}
	}
	own := query || s.block.portal // a simple query ends the unnamed portal by itself
	if !own {
		s.owed.sent(owed{typ: wire.Close, how: hide})
	}
	run.build(func(b []byte) []byte {
		for _, text := range sent {
			from := len(b)
			b = append(b, wire.Parse, 0, 0, 0, 0, 0)
			b = append(append(b, text...), 0, 0, 0)
			binary.BigEndian.PutUint32(b[from+1:], uint32(len(b)-from-1))
			b = append(b, wire.Bind, 0, 0, 0, 4+2+6, 0, 0, 0, 0, 0, 0, 0, 0)
			b = append(b, wire.Execute, 0, 0, 0, 4+1+4, 0, 0, 0, 0, 0)
		}
		if !own {
			b = append(b, wire.Close, 0, 0, 0, 6, 'P', 0)
		}
		return b
	})
}

// beganHere follows an answer to the messages of sendBegin.
func (s *Session) beganHere(o *owed, typ byte) {
	if o.begins && typ == wire.CommandComplete {
		s.block.unsure = false
	}
}
