package session

import (
	"encoding/binary"
	"slices"
	"strings"

	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/libs/verdict"
	"github.com/pgpilot/pgpilot/services/router/internal/settings"
)

// travelling gives what the client has prepared as it travels in a record, ordered
// by name.
func (s *Session) travelling() []handoff.Prepared {
	var out []handoff.Prepared
	add := func(st *Statement) {
		if st != nil && (!st.raw || st.sql) {
			out = append(out, st.pack())
		}
	}
	add(s.unnamed)
	for _, st := range s.named {
		add(st)
	}
	slices.SortFunc(out, func(a, b handoff.Prepared) int { return strings.Compare(string(a.Name), string(b.Name)) })
	return out
}

// setting gives what the client has set as it travels.
func (s *Session) setting() []handoff.Setting {
	var out []handoff.Setting
	for _, c := range s.set.List().Settings() {
		out = append(out, handoff.Setting{Name: c.Name, SQL: c.SQL})
	}
	return out
}

// restore takes over what the client has set.
func (s *Session) restore(travelled []handoff.Setting) {
	var cs []settings.Change
	for _, c := range travelled {
		cs = append(cs, settings.Change{Name: c.Name, SQL: c.SQL})
	}
	s.set = settings.Restore(cs)
	s.parsing = s.set.List().AtParse()
}

// pack gives a statement as it travels. The result shares nothing with it.
func (s *Statement) pack() handoff.Prepared {
	p := handoff.Prepared{
		Name: []byte(s.client), Text: slices.Clone(s.body[:s.text]),
		SQL: s.sql, Kind: s.verdict.Kind.String(), Effects: s.verdict.Effects.Names(), Fingerprint: s.verdict.Fingerprint,
	}
	for b := s.body[s.text+1+2:]; len(b) >= 4; b = b[4:] {
		p.Types = append(p.Types, binary.BigEndian.Uint32(b))
	}
	if s.told.isParams {
		p.Params = slices.Clone(s.told.params[:])
	}
	if s.told.isRows {
		p.Rows = slices.Clone(s.told.rows[:])
	}
	return p
}

// unpack makes the statement of what has travelled.
func unpack(p *handoff.Prepared) *Statement {
	body := append(slices.Clone(p.Text), 0)
	body = binary.BigEndian.AppendUint16(body, uint16(len(p.Types)))
	for _, t := range p.Types {
		body = binary.BigEndian.AppendUint32(body, t)
	}
	s := &Statement{}
	s.set(body, len(p.Text), nil, settings.Hash{})
	switch {
	case p.SQL:
		s = newPrepared(string(p.Name), p.Text, settings.Hash{})
	case len(p.Name) > 0:
		s.name(string(p.Name))
	}
	s.verdict = verdict.Unclassified()
	kind, err := verdict.ParseKind(p.Kind)
	effects, err2 := verdict.ParseEffects(p.Effects)
	if err == nil && err2 == nil {
		s.verdict = verdict.Verdict{Kind: kind, Effects: effects, Fingerprint: p.Fingerprint}
	}
	s.told.isParams = copy(s.told.params[:], p.Params) == len(s.told.params)
	s.told.isRows = copy(s.told.rows[:], p.Rows) == len(s.told.rows)
	return s
}
