package session

import (
	"encoding/binary"
	"slices"
	"strings"

	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/libs/verdict"
	"github.com/pgpilot/pgpilot/services/router/internal/settings"
)

// What a session's parts look like in a record, and the parts of a record.

// travelling are a session's statements in the order in which they travel.
type travelling struct {
	sts []*Statement
	out []handoff.Prepared
}

// add packs a statement and gives its place.
func (t *travelling) add(st *Statement, closed, current bool) int {
	if i := slices.Index(t.sts, st); i >= 0 {
		return i
	}
	p := st.pack()
	p.Current = current
	p.Closed = closed
	t.sts, t.out = append(t.sts, st), append(t.out, p)
	return len(t.sts) - 1
}

// portal packs a portal.
func (t *travelling) portal(p *portal) handoff.Portal {
	return handoff.Portal{Name: slices.Clone(p.name), Statement: t.add(p.st, true, false), Ran: p.ran, Depth: p.depth, Commands: packCommands(p.cmds), Formats: p.st.local.formats}
}

// statementsLeave packs what the client has prepared, ordered by name, and the portals
// of an open transaction.
func (s *Session) statementsLeave(inTransaction bool) ([]handoff.Prepared, []handoff.Portal) {
	var t travelling
	if s.unnamed != nil {
		t.add(s.unnamed, false, s.keepsCurrent(s.unnamed))
	}
	named := make([]*Statement, 0, len(s.named))
	for _, st := range s.named {
		named = append(named, st)
	}
	slices.SortFunc(named, func(a, b *Statement) int { return strings.Compare(a.client, b.client) })
	for _, st := range named {
		t.add(st, false, s.keepsCurrent(st))
	}
	var portals []handoff.Portal
	if inTransaction {
		if s.latest.st != nil {
			portals = append(portals, t.portal(&s.latest))
		}
		for i := range s.here {
			portals = append(portals, t.portal(&s.here[i]))
		}
	}
	return t.out, portals
}

// statementsArrive takes them over. number is that of what has come with the session.
func (s *Session) statementsArrive(l *handoff.Live, number uint64) {
	sts := make([]*Statement, len(l.Prepared))
	for i := range l.Prepared {
		p := &l.Prepared[i]
		sts[i] = unpack(p)
		sts[i].hint = s.hintsOf(p.Text)
		s.born(sts[i])
		if p.Current {
			sts[i].birth.own = number
		}
		if !p.Closed {
			s.define(sts[i].client, sts[i])
			s.sql = s.sql || sts[i].sql
		}
	}
	for i := range l.Portals {
		p := &l.Portals[i]
		st := sts[p.Statement].formatted(p.Formats)
		if st.local.kind != notLocal {
			s.here.bind(p.Name, st, p.Depth)
			s.here.find(p.Name).ran = p.Ran
			continue
		}
		s.latest.set(p.Name, st, unpackCommands(p.Commands))
		s.latest.ran = p.Ran
	}
	s.forgetful = s.inTransaction() // only the latest portal travels
}

// packCommands gives what a portal does to settings as it travels.
func packCommands(cs []settings.Command) (out []handoff.Command) {
	for _, c := range cs {
		p := handoff.Command{Kind: c.Kind.String(), Name: c.Name}
		for _, ch := range c.Changes {
			p.Changes = append(p.Changes, handoff.Setting{Name: ch.Name, SQL: ch.SQL})
		}
		out = append(out, p)
	}
	return out
}

func unpackCommands(travelled []handoff.Command) (out []settings.Command) {
	for _, p := range travelled {
		c := settings.Command{Kind: settings.KindOf(p.Kind), Name: p.Name}
		for _, ch := range p.Changes {
			c.Changes = append(c.Changes, settings.Change{Name: ch.Name, SQL: ch.SQL})
		}
		out = append(out, c)
	}
	return out
}

// pack gives a statement as it travels. The result shares nothing with it.
func (s *Statement) pack() handoff.Prepared {
	p := handoff.Prepared{
		Name: []byte(s.client),
		Kind: s.verdict.Kind.String(), Effects: s.verdict.Effects.Names(), Fingerprint: s.verdict.Fingerprint,
		Followed: s.cmds != nil, Local: s.local.kind != notLocal, Forgets: s.forgets, Raw: s.raw, SQL: s.sql, Passing: s.passing,
		Params: s.told.packParams(), Rows: s.told.packRows(),
	}
	if s.parsing != (settings.Hash{}) {
		p.Environment = slices.Clone(s.parsing[:])
	}
	if s.raw && !s.sql {
		return p
	}
	p.Text = slices.Clone(s.body[:s.text])
	for b := s.body[s.text+1+2:]; len(b) >= 4; b = b[4:] {
		p.Types = append(p.Types, binary.BigEndian.Uint32(b))
	}
	return p
}

// unpack makes the statement of what has travelled.
func unpack(p *handoff.Prepared) *Statement {
	if p.Raw && !p.SQL {
		return newRaw(string(p.Name))
	}
	body := append(slices.Clone(p.Text), 0)
	body = binary.BigEndian.AppendUint16(body, uint16(len(p.Types)))
	for _, t := range p.Types {
		body = binary.BigEndian.AppendUint32(body, t)
	}
	s := &Statement{}
	var parsing settings.Hash
	copy(parsing[:], p.Environment)
	s.set(body, len(p.Text), nil, parsing)
	s.verdict = judgement(p)
	s.told.unpack(p.Params, p.Rows)
	s.forgets, s.passing, s.copies = p.Forgets, p.Passing, mayCopyIn(p.Text)
	if !p.Local {
		s.drops = unpackLocal(p.Text).name
	}
	if p.Followed {
		s.cmds = followed(p.Text) // what it was read as when it was prepared
	}
	switch {
	case p.SQL:
		v := s.verdict
		s = newPrepared(string(p.Name), p.Text, parsing)
		s.verdict = v
	case p.Local:
		s.local = unpackLocal(p.Text)
		s.verdict = s.local.verdict()
		s.client = string(p.Name)
	case len(p.Name) > 0:
		s.name(string(p.Name))
	}
	return s
}

// judgement gives a statement's verdict. Whether it still holds is not known where the
// session has come to, since which changes of the catalog are known there is not: it is
// asked for again.
func judgement(p *handoff.Prepared) verdict.Verdict {
	v := unlooked()
	kind, err := verdict.ParseKind(p.Kind)
	effects, err2 := verdict.ParseEffects(p.Effects)
	if err == nil && err2 == nil {
		v = verdict.Verdict{Kind: kind, Effects: effects, Fingerprint: p.Fingerprint}
	}
	v.Passing = true
	return v
}

func (t *told) packParams() []byte {
	if !t.isParams {
		return nil
	}
	return slices.Clone(t.params[:])
}

func (t *told) packRows() []byte {
	if !t.isRows {
		return nil
	}
	return slices.Clone(t.rows[:])
}

func (t *told) unpack(params, rows []byte) {
	t.isParams = copy(t.params[:], params) == len(t.params)
	t.isRows = copy(t.rows[:], rows) == len(t.rows)
}

// Pack notes in a lease what the connection holds.
func (t *Statements) Pack(l *handoff.Lease) {
	names := make([]string, 0, len(t.held))
	for name := range t.held {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		if n := int64(t.held[a].used) - int64(t.held[b].used); n != 0 {
			return int(max(-1, min(1, n)))
		}
		return strings.Compare(a, b)
	})
	for _, name := range names {
		l.Statements = append(l.Statements, t.held[name].pack([]byte(name)))
	}
	if t.unnamed.used != 0 {
		u := t.unnamed.pack(slices.Clone(t.unnamedID[:]))
		l.Unnamed = &u
	}
	for _, name := range t.Names() {
		at := t.sql[name]
		l.Named = append(l.Named, handoff.Named{Name: []byte(name), Content: slices.Clone(at.id[:])})
	}
}

func (h *heldStatement) pack(name []byte) handoff.Held {
	return handoff.Held{Name: name, Stale: h.stale, Params: h.told.packParams(), Rows: h.told.packRows()}
}

// Unpack makes it what a lease says that the connection holds.
func (t *Statements) Unpack(l *handoff.Lease) {
	*t = Statements{}
	for i := range l.Statements {
		h := &l.Statements[i]
		t.clock++
		t.restore(string(h.Name))
		t.held[string(h.Name)].unpack(h)
	}
	if u := l.Unnamed; u != nil && copy(t.unnamedID[:], u.Name) == len(t.unnamedID) {
		t.clock++
		t.unnamed.used = t.clock
		t.unnamed.unpack(u)
	}
	for _, n := range l.Named {
		var at underName
		copy(at.id[:], n.Content)
		t.prepare(string(n.Name), at)
	}
}

func (h *heldStatement) unpack(p *handoff.Held) {
	h.stale = p.Stale
	h.told.unpack(p.Params, p.Rows)
}

// settingsLeave packs what the client has set.
func (s *Session) settingsLeave(l *handoff.Live) {
	b := s.set.Depart()
	for _, c := range b.Settings {
		l.Settings = append(l.Settings, handoff.Setting{Name: c.Name, SQL: c.SQL})
	}
	for _, level := range b.Levels {
		out := handoff.Level{Savepoint: level.Savepoint}
		for _, c := range level.Changes {
			out.Changes = append(out.Changes, handoff.Change{Setting: handoff.Setting{Name: c.Name, SQL: c.SQL}, Kind: c.Kind.String()})
		}
		l.Levels = append(l.Levels, out)
	}
	l.Channels, l.Lost, l.Epoch = b.Channels, b.Lost, s.epoch
}

// settingsArrive takes it over.
func (s *Session) settingsArrive(l *handoff.Live) {
	b := settings.Baggage{Channels: l.Channels, Lost: l.Lost}
	for _, c := range l.Settings {
		b.Settings = append(b.Settings, settings.Change{Name: c.Name, SQL: c.SQL})
	}
	for _, level := range l.Levels {
		in := settings.Level{Savepoint: level.Savepoint}
		for _, c := range level.Changes {
			in.Changes = append(in.Changes, settings.Made{Change: settings.Change{Name: c.Name, SQL: c.SQL}, Kind: settings.KindOf(c.Kind)})
		}
		b.Levels = append(b.Levels, in)
	}
	s.set = settings.Arrive(b)
	now := s.set.Now()
	s.parsing, s.epoch = now.AtParse(), l.Epoch
	s.own = ownOf(now.Settings())
}
