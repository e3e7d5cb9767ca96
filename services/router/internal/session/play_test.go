package session_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/libs/lsn"
	"github.com/pgpilot/pgpilot/libs/verdict"
	"github.com/pgpilot/pgpilot/services/router/internal/fence"
	"github.com/pgpilot/pgpilot/services/router/internal/route"
	"github.com/pgpilot/pgpilot/services/router/internal/session"
	"github.com/pgpilot/pgpilot/services/router/internal/settings"
)

// play is one run of a scenario.
type play struct {
	t     *testing.T
	piece int // how many bytes arrive at once, 0 for all
	o     *owner
	lines []string
	// held back by first=N, until "rest".
	held map[string][]byte
	to   map[string]*printer
	// sent and done are the whole run's, for comparison with another.
	sent map[string][]byte
	done []string
	mark uint64
	// accounts are what connections hold of prepared statements, by name, and params
	// what is set on them; lent are the names of those that the session has.
	accounts map[string]*session.Statements
	params   map[string]*settings.Hash
	lent     [2]string
}

func newPlay(t *testing.T, piece int) *play {
	p := &play{t: t, piece: piece, held: map[string][]byte{}, accounts: map[string]*session.Statements{}, params: map[string]*settings.Hash{}, sent: map[string][]byte{}, to: map[string]*printer{
		"client": {kinds: serverKinds}, "primary": {kinds: clientKinds}, "replica": {kinds: clientKinds},
	}}
	p.begin(record())
	return p
}

func (p *play) begin(rec *handoff.Record) {
	p.o = newOwner(rec, func(format string, args ...any) { p.t.Errorf(format, args...) })
	p.o.act = p.act
	p.o.unsuited = func(text string) { p.lines = append(p.lines, "unsuited "+strconv.Quote(text)) }
}

// act writes an action down.
func (p *play) act(a session.Action, data []byte) {
	switch a.Op {
	case session.OpToClient, session.OpToServer:
		name := "client"
		if a.Op == session.OpToServer {
			name = a.Slot.String()
		}
		p.sent[name] = append(p.sent[name], data...)
		p.lines = append(p.lines, name+"< "+p.to[name].print(data))
		return
	}
	s := a.Op.String()
	switch a.Op {
	case session.OpJudge:
		s += " " + strconv.Quote(string(data))
	case session.OpAcquire:
		s += " " + a.Request.Reason.String()
		if a.Request.Read {
			s = a.Op.String() + " read"
		}
		if a.Request.Only != 0 {
			s += fmt.Sprintf(" only in run %d", a.Request.Run)
		}
		if a.Request.Strict && !a.Request.Fence.IsZero() {
			s += " fence " + position(a.Request.Fence)
		}
		if a.Request.Read && a.Request.Hinted {
			s += " hinted"
		}
		if a.Request.Read && a.Request.Bound > 0 {
			s += " fresh " + a.Request.Bound.String()
		}
		for i := range 8 {
			if a.Request.Tried.Has(i) {
				s += fmt.Sprintf(" not %d", i)
			}
		}
	case session.OpRelease:
		s += fmt.Sprintf(" %s %s", a.Slot, a.How)
		if a.How != session.Clean { // closed or reset
			delete(p.accounts, p.lent[a.Slot])
			delete(p.params, p.lent[a.Slot])
		}
		p.to[a.Slot.String()].rest = 0
	case session.OpSettle:
		p.mark = a.Mark
		s += fmt.Sprintf(" %d", a.Mark)
	case session.OpLimitIdle:
		s += " " + a.Wait.String()
	case session.OpCancel:
		s += " " + a.Slot.String()
	case session.OpAdmit:
		s += " " + a.Token.String()
	}
	p.lines = append(p.lines, s)
	p.done = append(p.done, s)
}

func position(at lsn.Position) string { return fmt.Sprintf("%d@%s", at.Timeline, at.LSN) }

// state writes what can be seen of a session between events.
func (p *play) state() string {
	s := "= " + p.o.s.Phase().String()
	if p.o.s.Fence().Dirty() {
		s += ", fence dirty"
	} else if at := p.o.s.Fence().Position(); !at.IsZero() {
		s += ", fence " + position(at)
	}
	if n := len(p.o.clientUnread); n > 0 {
		s += fmt.Sprintf(", %d bytes unread", n)
	}
	return s
}

// event plays one event and gives what it led to.
func (p *play) event(line string) []string {
	p.lines = nil
	ws, err := words(line)
	if err == nil {
		err = p.run(ws[0], ws[1:])
	}
	if err != nil {
		p.t.Fatalf("%s: %v", line, err)
	}
	state := p.state()
	p.done = append(p.done, state)
	return append(p.lines, state)
}

func (p *play) run(name string, args []string) error {
	s := p.o.s
	switch name {
	case "set":
		return p.set(args)
	case "record": // a session that was served before: its pin and its fence
		rec := record()
		rec.Live = &handoff.Live{Pin: strings.TrimPrefix(args[0], `"`), Fence: handoff.Fence{Position: at(args[1]), Dirty: len(args) > 2}}
		p.begin(rec)
	case "startup": // with these parameters of the client's
		rec := record()
		for _, a := range args {
			k, v, _ := strings.Cut(strings.TrimPrefix(a, `"`), "=")
			rec.Startup = append(rec.Startup, handoff.Parameter{Name: k, Value: v})
		}
		p.begin(rec)
	case "replication": // a connection for it
		rec := record()
		rec.Replication = args[0]
		p.begin(rec)
	case "start": // with the parameters that are known, if any
		var params []handoff.Parameter
		for _, a := range args {
			k, v, _ := strings.Cut(a, "=")
			params = append(params, handoff.Parameter{Name: k, Value: v})
		}
		p.o.tell(func() { s.Start(params) })
	case "known":
		p.o.verdicts[strings.TrimPrefix(args[0], `"`)] = judgement(args[1:])
	case "verdict":
		p.o.tell(func() { s.Judged(judgement(args)) })
	case "client":
		return p.bytes("client", clientKinds, args, p.o.client)
	case "primary", "replica":
		return p.bytes(name, serverKinds, args, func(b []byte) { p.o.server(slot(name), b) })
	case "granted":
		p.o.granted(p.grant(args))
	case "refused":
		p.o.tell(func() {
			s.Refuse(&session.Problem{Code: args[0], Message: strings.TrimPrefix(args[1], `"`)})
		})
	case "lost":
		p.o.lost(slot(args[0]))
	case "settled": // with the last mark, on backend 0; optionally its run
		probe := fence.Probe{Position: at(args[0]), Server: fence.Server{Run: 1}}
		if len(args) > 1 {
			run, err := strconv.Atoi(strings.TrimPrefix(args[1], "run="))
			if err != nil {
				return err
			}
			probe.Server.Run = uint32(run)
		}
		if !p.o.settled(p.mark, probe) {
			p.lines = append(p.lines, "perhaps lost")
		}
	case "admitted": // at a position, or an error
		if code, message, refused := strings.Cut(strings.TrimPrefix(args[0], `"`), "="); refused {
			p.o.tell(func() { s.Admitted(lsn.Position{}, false, &session.Problem{Code: code, Message: message}) })
			break
		}
		p.o.tell(func() { s.Admitted(at(args[0]), len(args) > 1, nil) })
	case "pause": // the server takes nothing, so the client is not read
		p.o.paused = true
	case "unpause":
		p.o.paused = false
		p.o.resume()
	case "done": // the client has closed its side
		p.o.done = true
		p.o.resume()
	case "knock":
		p.o.tell(s.Knock)
	case "warn":
		p.o.tell(func() { s.Warn("01000", "look out", "") })
	default:
		f, ok := map[string]func(){
			"idle-too-long": func() { s.IdleTooLong(s.Steps()) }, "fence-ready": s.FenceReady, "cancel": s.Cancel, "gone": s.ClientGone, "stop": s.Stop, "kill": s.Kill,
		}[name]
		if !ok {
			return fmt.Errorf("no event is called %s", name)
		}
		p.o.tell(f)
	}
	return nil
}

func (p *play) set(args []string) error {
	for _, a := range args {
		k, v, _ := strings.Cut(a, "=")
		switch k {
		case "strict":
			p.o.strict(v == "on")
		case "mode":
			m, ok := fence.ParseMode(v)
			if !ok {
				return fmt.Errorf("there is no mode %q", v)
			}
			p.o.settings.Values.Mode = m
		case "serves":
			p.o.serves = v == "on"
		case "flushed":
			p.o.flushed = v == "on"
		case "per-session":
			p.o.settings.PerSession = v == "on"
		case "lazy-begin":
			p.o.settings.LazyBegin, p.o.beginnings.Known = v == "on", true
		case "read-only-on-replicas":
			p.o.settings.ReadOnlyOnReplicas, p.o.beginnings.Isolation = v == "on", settings.ReadCommitted
		case "isolation": // that transactions begin with
			p.o.beginnings.Isolation = settings.ParseIsolation(v)
		case "temporary-path":
			p.o.beginnings.Temporary = v == "on"
		case "transaction-timeout":
			p.o.beginnings.Limited = v == "on"
		case "idle-limit", "moment":
			d, err := time.ParseDuration(v)
			if err != nil {
				return err
			}
			if k == "moment" {
				p.o.moment = d
			} else {
				p.o.beginnings.IdleInTransaction = d
			}
		case "max-text", "max-statements":
			n, err := strconv.Atoi(v)
			if err != nil {
				return err
			}
			if k == "max-text" {
				p.o.settings.MaxText = n
			} else {
				p.o.settings.MaxStatements = n
			}
		default:
			return fmt.Errorf("no setting is called %s", k)
		}
	}
	return nil
}

// bytes gives messages to one of the streams: all of them, only the first N
// bytes (first=N), or what was held back then (rest).
func (p *play) bytes(name string, kinds []kind, args []string, give func([]byte)) error {
	var b []byte
	if args[0] == "rest" {
		b, p.held[name] = p.held[name], nil
	} else {
		first := -1
		if n, ok := strings.CutPrefix(args[0], "first="); ok {
			var err error
			if first, err = strconv.Atoi(n); err != nil {
				return err
			}
			args = args[1:]
		}
		var err error
		if b, err = encode(kinds, args); err != nil {
			return err
		}
		if first >= 0 {
			b, p.held[name] = b[:first], b[first:]
		}
	}
	if p.piece == 0 {
		give(b)
		return nil
	}
	for len(b) > 0 && !p.o.closed {
		if name != "client" && !p.o.lent[slot(name)] {
			break // what the server says after that, nobody hears
		}
		n := min(p.piece, len(b))
		give(b[:n])
		b = b[n:]
	}
	return nil
}

func slot(name string) session.Slot {
	if name == "replica" {
		return session.ReplicaSlot
	}
	return session.PrimarySlot
}

// judgement reads "read" or "write" and effects. A verdict has a fingerprint
// unless it says unjudged.
func judgement(args []string) verdict.Verdict {
	v := verdict.Verdict{Fingerprint: 1}
	for _, a := range args {
		switch a {
		case "read":
			v.Kind = verdict.Read
		case "unjudged":
			v = verdict.Unclassified()
		case "transaction":
			v.Effects |= verdict.Transaction
		case "session":
			v.Effects |= verdict.Session
		case "unproven":
			v.Effects |= verdict.Unproven
		case "resets":
			v.Effects |= verdict.ResetsSession
		case "sequences":
			v.Effects |= verdict.Sequences
		case "indelible":
			v.Effects |= verdict.Indelible
		}
		if name, ok := strings.CutPrefix(a, "prepare="); ok { // of a read
			v.Detail = &verdict.Detail{Parts: []verdict.Part{{Prepare: &verdict.Prepare{Name: name, Kind: verdict.Read}}}}
		}
		if name, ok := strings.CutPrefix(a, "execute="); ok {
			v.Detail = &verdict.Detail{Parts: []verdict.Part{{Execute: &verdict.Execute{Name: name, Kind: verdict.Read}}}}
		}
		if parts, ok := strings.CutPrefix(a, "parts="); ok { // of a string, by their effects
			v.Detail = &verdict.Detail{}
			for part := range strings.SplitSeq(parts, ",") {
				v.Detail.Parts = append(v.Detail.Parts, verdict.Part{Effects: judgement([]string{part}).Effects})
			}
		}
		if a == "others" { // other statements in the string
			v.Detail.Parts = append(v.Detail.Parts, verdict.Part{})
		}
		if args, ok := strings.CutPrefix(a, "set_config="); ok {
			v.Detail = &verdict.Detail{Parts: []verdict.Part{{Settings: settingsOf(args)}}}
		}
		if names, ok := strings.CutPrefix(a, "locals="); ok { // what is set until the end of the transaction
			d := verdict.Detail{Parts: []verdict.Part{{}}}
			if v.Detail != nil {
				d.Parts[0] = v.Detail.Parts[0]
			}
			for name := range strings.SplitSeq(names, ",") {
				d.Parts[0].Locals = append(d.Parts[0].Locals, operand(name))
			}
			v.Detail = &d
		}
	}
	return v
}

// settingsOf reads calls of set_config by their arguments: 'N for a constant, $N for a
// parameter, a word for itself.
func settingsOf(args string) (out []verdict.Setting) {
	for call := range strings.SplitSeq(args, ";") {
		var ops [3]verdict.Operand
		for i, a := range strings.Split(call, ",") {
			ops[i] = operand(a)
		}
		out = append(out, verdict.Setting{Name: ops[0], Value: ops[1], Local: ops[2]})
	}
	return out
}

// operand reads one argument; * is one that is not known.
func operand(a string) (o verdict.Operand) {
	n, err := strconv.Atoi(a[1:])
	switch {
	case a == "*":
	case a[0] == '\'' && err == nil:
		o.Literal = n
	case a[0] == '$' && err == nil:
		o.Param = n
	default:
		o.Word = a
	}
	return o
}

// grant reads a slot and options. Backend 0 is the primary, 1 a replica; conn=
// names one of several connections.
func (p *play) grant(args []string) *session.Grant {
	g := &session.Grant{
		Slot: slot(args[0]), Name: "p0", Role: route.RolePrimary, Reason: route.ReasonWrite, Waited: 5 * time.Microsecond,
		Server:     fence.Server{Run: 1},
		Parameters: []handoff.Parameter{{Name: "server_version", Value: "15.4"}, {Name: "in_hot_standby", Value: "on"}},
	}
	if g.Slot == session.ReplicaSlot {
		g.Backend, g.Name, g.Role, g.Reason = 1, "r1", route.RoleReplica, route.ReasonRead
		g.Replayed = lsn.Position{Timeline: 1, LSN: 0x200}
	}
	name := args[0]
	for _, a := range args[1:] {
		if a == "escapes" { // backslashes in ordinary strings
			g.Reported = new(session.Reported)
			g.Reported.Began([]handoff.Parameter{{Name: "standard_conforming_strings", Value: "off"}})
		}
		if strings.HasPrefix(a, "conn=") {
			name += a
		}
		if as, ok := strings.CutPrefix(a, "as-of="); ok {
			g.AsOf, _ = time.ParseDuration(as)
		}
		if shows, ok := strings.CutPrefix(a, "replayed="); ok {
			g.Replayed = at(shows)
		}
		if n, err := strconv.Atoi(strings.TrimPrefix(a, "backend=")); err == nil {
			g.Backend, g.Name = n, fmt.Sprintf("r%d", n)
		}
	}
	g.Server.Backend = g.Backend
	if p.accounts[name] == nil {
		p.accounts[name] = new(session.Statements)
		p.params[name] = new(settings.Hash)
	}
	p.lent[g.Slot] = name
	g.Statements, g.Settings = p.accounts[name], p.params[name]
	return g
}

// at reads timeline@LSN.
func at(s string) lsn.Position {
	tl, l, _ := strings.Cut(s, "@")
	n, err := strconv.Atoi(tl)
	if err != nil {
		panic(fmt.Sprintf("position %q: %v", s, err))
	}
	x, err := lsn.Parse(l)
	if err != nil {
		panic(fmt.Sprintf("position %q: %v", s, err))
	}
	return lsn.Position{Timeline: lsn.Timeline(n), LSN: x}
}
