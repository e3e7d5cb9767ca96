package session_test

import (
	"bytes"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/libs/wire"
	"github.com/pgpilot/pgpilot/services/router/internal/session"
)

// TestAnswersOwedAreBounded has a client send more than a server answers: messages that the
// router answers itself behind one whose answer the server keeps until it is asked for it.
func TestAnswersOwedAreBounded(t *testing.T) {
	const most = 64 << 10
	for _, c := range []struct {
		message         []string
		answer          string
		asked, answered []string // of the server
	}{
		{message: []string{"Close", `"Sx`}, answer: "CloseComplete", asked: []string{"Flush"}},
		{message: []string{"Sync"}, answer: "ReadyForQuery", answered: []string{"ReadyForQuery"}},
	} {
		t.Run(c.message[0], func(t *testing.T) {
			p := newPlay(t, 0)
			for _, e := range []string{`known "INSERT" write`, "start server_version=15.4", `client Parse "" "INSERT" Flush`, "granted primary"} {
				p.event(e)
			}
			p.sent = map[string][]byte{}
			one := mustEncode(t, clientKinds, c.message)
			for range 5 {
				p.o.client(bytes.Repeat(one, most/4))
			}
			if n := len(p.o.clientUnread) / len(one); n < most/4-1 {
				t.Errorf("%d messages are not read yet, want %d", n, most/4)
			}
			if asked := mustEncode(t, clientKinds, c.asked); !bytes.HasSuffix(p.sent["primary"], asked) || bytes.Count(p.sent["primary"], mustEncode(t, clientKinds, []string{"Flush"})) != len(c.asked) {
				t.Errorf("the server is not asked for %q once", c.asked)
			}
			p.o.server(session.PrimarySlot, mustEncode(t, serverKinds, []string{"ParseComplete"}))
			if c.answered != nil {
				answer := mustEncode(t, serverKinds, c.answered)
				for p.o.lent[session.PrimarySlot] {
					p.o.server(session.PrimarySlot, answer)
				}
			}
			if n := len(p.o.clientUnread); n > 0 {
				t.Errorf("%d bytes are never read", n)
			}
			k, _ := find(serverKinds, c.answer)
			if n := count(p.sent["client"], k.typ); n != 5*most/4 {
				t.Errorf("it gets %d answers, want %d", n, 5*most/4)
			}
		})
	}
}

// count counts the messages of a type in a stream.
func count(b []byte, typ byte) (n int) {
	for len(b) > 0 {
		t, total, err := wire.Header(b)
		if err != nil || total == 0 {
			return math.MinInt
		}
		if t == typ {
			n++
		}
		b = b[total:]
	}
	return n
}

// TestLongSequencesAreReadOnce has sequences twice as long cost twice as much, in memory
// taken, which texts that are read take.
func TestLongSequencesAreReadOnce(t *testing.T) {
	cost := func(n int) float64 {
		p := newPlay(t, 0)
		p.event("start server_version=15.4")
		b := bytes.Repeat(mustEncode(t, clientKinds, []string{"Parse", `"`, `"SHOW pgpilot.route`, "Bind"}), n)
		b = append(b, mustEncode(t, clientKinds, []string{"Sync"})...)
		var last string
		allocs := testing.AllocsPerRun(2, func() {
			p.lines = nil
			p.o.client(b)
			last = strings.Join(p.lines, "\n")
		})
		if !strings.HasSuffix(last, "| ReadyForQuery I") {
			t.Fatalf("%d times: %.200s", n, last)
		}
		return allocs
	}
	if one, two := cost(200), cost(400); two > 3*one {
		t.Errorf("200 of them take %.0f allocations, 400 take %.0f", one, two)
	}
}

// BenchmarkManyNames surveys a sequence that prepares many statements and binds as many that
// it does not prepare: ten times as many take ten times as long.
func BenchmarkManyNames(b *testing.B) {
	for _, n := range []int{1000, 10000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			var words []string
			for i := range n {
				words = append(words, "Parse", `"s`+strconv.Itoa(i), `"SELECT 1`)
			}
			seq := mustEncode(b, clientKinds, words)
			seq = append(seq, bytes.Repeat(mustEncode(b, clientKinds, []string{"Bind", `"x`}), n)...)
			seq = append(seq, mustEncode(b, clientKinds, []string{"Sync"})...)
			s := session.New(record(), &steady{})
			s.Start([]handoff.Parameter{{Name: "server_version", Value: "15.4"}})
			for b.Loop() {
				if used := s.FromClient(seq); used != 0 || s.Phase() != session.Queued {
					b.Fatalf("used %d, %s; want a request for a connection", used, s.Phase())
				}
				s.Refuse(&session.Problem{Code: "57P03"})
				if used := s.FromClient(seq); used != len(seq) {
					b.Fatalf("used %d of %d; want the sequence refused", used, len(seq))
				}
				s.Reset()
			}
		})
	}
}
