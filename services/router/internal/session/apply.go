package session

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/pgpilot/pgpilot/libs/verdict"
	"github.com/pgpilot/pgpilot/libs/wire"
	"github.com/pgpilot/pgpilot/services/router/internal/route"
	"github.com/pgpilot/pgpilot/services/router/internal/settings"
)

// What the client sets (SET, RESET) is followed, and given to each connection
// before its statements. Nothing is sent behind settings until the server has
// accepted all of them: a statement must not run as another role, or see another
// schema, than its client has been told.

// commands reads what a text does to settings; nil if that is not worth to be known or is
// not known. For statements among them that are not followed the verdict's effects hold.
func (s *Session) commands(text []byte, v verdict.Verdict) []settings.Command {
	// SET LOCAL leaves nothing behind, but matters to what is parsed in its transaction.
	if v.Effects&(verdict.Session|verdict.Transaction) == 0 && !setsInPart(&v) && (v.Kind == verdict.Read || !settings.BeginsWithSet(text)) ||
		len(text) > s.env.Settings().MaxText || !s.legible(text) {
		return nil
	}
	cmds := followed(text)
	if cmds == nil {
		cmds = followedByParts(text, &v)
	}
	return s.withLocals(cmds, text, &v)
}

// setsInPart reports whether a statement of a string of several sets something until the end of
// the transaction. One by itself is looked at when it is executed.
func setsInPart(v *verdict.Verdict) bool {
	return v.Detail != nil && len(v.Detail.Parts) > 1 && slices.ContainsFunc(v.Detail.Parts, func(p verdict.Part) bool { return p.Locals != nil })
}

// followedByParts reads what each statement of a string does, where the string as a whole is too
// long or cannot be taken apart here; nil if one may end the transaction and is not understood.
func followedByParts(text []byte, v *verdict.Verdict) (cmds []settings.Command) {
	if v.Detail == nil || len(v.Detail.Parts) < 2 {
		return nil
	}
	for i := range v.Detail.Parts {
		p := &v.Detail.Parts[i]
		if p.End <= p.Start || p.End > len(text) {
			return nil
		}
		c, ok := settings.Parse(text[p.Start:p.End])
		switch {
		case ok && len(c) == 1:
			cmds = append(cmds, c[0])
		case p.Effects.Has(verdict.Transaction):
			return nil
		default:
			cmds = append(cmds, settings.Command{Kind: settings.Other})
		}
	}
	return cmds
}

// withLocals has those of the commands, which are a text's, stand for what they set until the end
// of the transaction that are not followed otherwise.
func (s *Session) withLocals(cmds []settings.Command, text []byte, v *verdict.Verdict) []settings.Command {
	if !setsInPart(v) {
		return cmds
	}
	if len(cmds) == 0 && cmds != nil { // no statement is followed, and none ends the transaction
		cmds = slices.Repeat([]settings.Command{{Kind: settings.Other}}, len(v.Detail.Parts))
	}
	if len(cmds) != len(v.Detail.Parts) {
		return cmds
	}
	for i := range cmds {
		if cmds[i].Kind == settings.Other {
			if c, ok := s.locally(text, &v.Detail.Parts[i], nil, nil); ok {
				cmds[i] = c
			}
		}
	}
	return cmds
}

// followed reads what a text does to settings; nil if that is not known.
func followed(text []byte) []settings.Command {
	cs, ok := settings.Parse(text)
	if !ok {
		cs, _ = settings.Follow(text)
	}
	return cs
}

// legible reports whether the server reads the text as it is read here.
func (s *Session) legible(text []byte) bool {
	if s.escapes {
		return false
	}
	for _, p := range s.shown {
		if p.Name == "client_encoding" && p.Value != "UTF8" && bytes.ContainsFunc(text, func(r rune) bool { return r >= 0x80 }) {
			return false
		}
	}
	return true
}

// ran notes that a command on settings has been executed.
func (s *Session) ran(c *settings.Command, tag []byte) {
	s.set.Ran(c, tag)
	s.outlived(c)
	s.changed()
}

// changed notes that settings may not be what they were.
func (s *Session) changed() {
	now := s.set.Now()
	s.parsing = now.AtParse()
	s.own = ownOf(now.Settings())
	s.unfit = 0
	s.epoch++
	if s.set.Lost() {
		s.astray()
	}
}

// unfollowed gives the effects of a text without those of what is followed of it. Of a string
// in which not all is, that is what is set until the end of its transaction.
func unfollowed(v verdict.Verdict, cmds []settings.Command) verdict.Effect {
	const traces = verdict.Session | verdict.Unproven
	switch {
	case settings.Known(cmds) && !slices.ContainsFunc(cmds, func(c settings.Command) bool { return c.Besides }):
		return v.Effects &^ traces
	case v.Detail == nil || len(v.Detail.Parts) != len(cmds):
		return v.Effects
	}
	out := v.Effects &^ traces
	for i := range cmds {
		switch p := &v.Detail.Parts[i]; {
		case cmds[i].Besides:
			out |= p.Rest
		case cmds[i].Kind != settings.Local:
			out |= p.Effects
		}
	}
	return out
}

// undisclosed reports whether a text, of which cmds are known, may end the transaction at
// hand or do something about its savepoints, and nobody would know. A procedure may only
// outside of a transaction block.
func (s *Session) undisclosed(v verdict.Verdict, cmds []settings.Command) bool {
	switch {
	case settings.Known(cmds):
		return false
	case v.Effects.Has(verdict.Unproven) && s.status == wire.Idle, s.executesBlock(&v):
		return true
	}
	return cmds == nil && (v.Fingerprint == 0 || v.Effects.Has(verdict.Transaction))
}

// executesBlock reports whether a text has an EXECUTE in it that may run a transaction command:
// PREPARE takes none, but Parse does.
func (s *Session) executesBlock(v *verdict.Verdict) bool {
	if v.Detail == nil {
		return false
	}
	for i := range v.Detail.Parts {
		if x := v.Detail.Parts[i].Execute; x != nil {
			if st := s.named[x.Name]; st != nil && (st.verdict.Fingerprint == 0 || st.verdict.Effects.Has(verdict.Transaction)) {
				return true
			}
		}
	}
	return false
}

// astray gives up following the settings: only the connection has them.
func (s *Session) astray() {
	s.bind(pinState)
	s.held[s.at].used = true
}

// follow notes what a ReadyForQuery says of settings: what was set has become the
// session's, and so the connection has it.
func (s *Session) follow() {
	if s.set.Open() {
		s.set.Ready(!s.inTransaction())
		s.changed()
	} else {
		s.set.Ready(!s.inTransaction())
	}
	if s.inTransaction() {
		return
	}
	if s.dim {
		s.dim = false
		s.epoch++
	}
	switch {
	case s.set.Listens():
		s.bind(pinListen)
	case s.owed.empty(): // otherwise a LISTEN may be on its way
		s.pins &^= pinListen
	}
	switch h := &s.held[s.at]; {
	case h.ok && s.amending.given:
		*h.settings = s.amending.hash // also if the statement has failed
	case h.ok:
		*h.settings = s.set.List().Hash()
	}
	s.amending = amending{}
}

// roleKept are the first minor releases of which DISCARD ALL leaves the role that the login begins
// with (ALTER ROLE … SET role). Before them it leaves none, which the next session must not get.
var roleKept = map[int]int{12: 21, 13: 17, 14: 14, 15: 9, 16: 5, 17: 1}

// losesRole reports whether the server's DISCARD ALL leaves no role.
func (s *Session) losesRole() bool {
	for _, p := range s.shown {
		if p.Name == "server_version" {
			_, rest, _ := strings.Cut(p.Value, ".")
			if i := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' }); i >= 0 {
				rest = rest[:i]
			}
			minor, err := strconv.Atoi(rest)
			return err == nil && minor < roleKept[s.major()]
		}
	}
	return false
}

// environment identifies what is set, as far as it matters when a statement is
// parsed. Where that is not known, statements are this session's alone.
func (s *Session) environment() settings.Hash {
	if unsure, _ := s.set.Unsure(); !unsure && !s.sweeps && !s.dim && s.pins&pinState == 0 {
		return s.parsing
	}
	sum := sha256.Sum256(binary.BigEndian.AppendUint64([]byte(s.rec.Session), s.epoch))
	return settings.Hash(sum[:len(settings.Hash{})])
}

// onlyPrimary reports whether reads cannot run on a replica as things are set, in the
// session or for its login: a standby knows no serializable transactions (PostgreSQL
// documentation, "Hot Standby: User's Overview").
func (s *Session) onlyPrimary() bool {
	if level := s.block.modes.Isolation; level != settings.DefaultIsolation {
		return level == settings.Serializable
	}
	for _, c := range s.set.List().Settings() {
		if c.Name == "default_transaction_isolation" {
			return !bytes.Contains(bytes.ToLower([]byte(c.SQL)), []byte("read"))
		}
	}
	return s.env.Beginnings().Isolation == settings.Serializable
}

// apply gives the connection in use the session's settings, and takes from it what it
// has under names that clients give and that is not the session's.
func (s *Session) apply() {
	s.ask(Applying, func(b []byte) []byte {
		for _, name := range s.strange {
			b = append(append(append(b, "DEALLOCATE "...), quotedName(name)...), ';')
		}
		return s.set.List().AppendSQL(b)
	})
}

// fromApplying looks at the answer to the settings, or to what equips the connection.
func (s *Session) fromApplying(b []byte) int {
	return s.answered(b, func(typ byte, msg []byte) bool {
		if len(s.equipping.steps) > 0 {
			return s.fromEquipping(typ, msg)
		}
		switch typ {
		case wire.CommandComplete, wire.NoticeResponse:
			return true
		case wire.ErrorResponse:
			s.word = refusal(msg)
			return true
		case wire.ReadyForQuery:
			if isReady(msg, wire.Idle) {
				s.applied()
				return true
			}
		}
		return false
	})
}

// reported shows the client a parameter that is not what it was told. On a
// connection that is given its settings most are what they were on the last one.
func (s *Session) reported(msg []byte) {
	s.held[s.at].note(msg[wire.HeaderSize:])
	name, rest, _ := bytes.Cut(msg[wire.HeaderSize:], []byte{0})
	value, ok := wire.CString(rest)
	for _, p := range s.shown {
		if ok && p.Name == string(name) && p.Value == string(value) {
			return
		}
	}
	if s.note(msg[wire.HeaderSize:]) {
		from := len(s.scratch)
		s.scratch = append(s.scratch, msg...)
		s.toClient(from)
	}
}

// refusal reads why a server has refused the settings.
func refusal(msg []byte) *Problem {
	var e pgproto3.ErrorResponse
	if err := e.Decode(msg[wire.HeaderSize:]); err != nil {
		return &Problem{Code: "08P01", Message: "cannot read the server's error: " + err.Error()}
	}
	return &Problem{Code: e.Code, Message: e.Message, Detail: e.Detail, Hint: e.Hint}
}

// applied goes on after the answer to the settings. A server that refuses one of
// them has taken none; a replica may not know yet what the primary knows.
func (s *Session) applied() {
	h := &s.held[s.at]
	p, strange := s.word, s.strange
	s.word, s.strange = nil, nil
	how := Clean
	if strange != nil {
		how = Broken // who knows what it has lost, if anything failed
	}
	switch {
	case p == nil && s.amending.given:
		*h.settings = s.amending.hash
		s.proceed()
	case p == nil:
		*h.settings = s.set.List().Hash()
		for _, name := range strange {
			delete(h.statements.sql, name)
		}
		s.proceed()
	case (p.Code == canceled.Code && !s.interrupted || p.Code == noSuchStatement && strange != nil) && s.applies < maxApplies:
		// It was the time limit of the session that had the connection before, or that
		// session had a name for what has gone since: nothing that this one has done.
		backend := h.by.Backend
		s.let(s.at, Broken)
		s.applyElsewhere(backend)
	case s.at == ReplicaSlot && p.Code != canceled.Code:
		s.unfit = s.unfit.With(h.by.Backend)
		s.let(s.at, how)
		s.acquire(route.Request{Reason: route.ReasonSettings})
	case p.Code != canceled.Code && how == Clean && !s.amending.given && s.again == nil && s.status == wire.Idle:
		s.amending.refusal = p
		s.enter(Granted)
	default:
		s.applies = 0
		s.let(s.at, how)
		s.enter(Queued)
		s.Refuse(p)
	}
}

// applyElsewhere has the statement at the head go on without the connection that
// was lost while it was given the settings, unless its client has asked to cancel it.
func (s *Session) applyElsewhere(backend int) {
	s.word = nil
	if s.stops() || s.tires(&Problem{Code: "08006", Message: "server connection was lost while it was given the session's settings"}) {
		return
	}
	r := s.asked
	if r.Read {
		s.tried = s.tried.With(backend)
	}
	s.acquire(r)
}
