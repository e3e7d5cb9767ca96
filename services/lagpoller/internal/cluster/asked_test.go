package cluster

import (
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/lsn"
)

var branch = []lsn.Position{{Timeline: 1, LSN: 5}}

// The former primary answers a lagpoller that has just started before the one that was
// promoted in its place does.
func TestNobodyIsNamedBeforeAllHaveBeenAsked(t *testing.T) {
	for name, c := range map[string]struct {
		last func(s *State)
		want string
	}{
		"the promoted one answers last": {func(s *State) { s.Observed("b", primary(1, 2, 9, 3), branch) }, "b"},
		"the last one does not answer":  {func(s *State) { s.Failed("b", errDown, false, clock(3)) }, "a"},
	} {
		s := New("1", time.Unix(1000, 0))
		s.Configure(backends, clock(0))
		for i, tell := range []func(){
			func() {},
			func() { s.Observed("a", primary(3, 1, 9, 1), nil) },
			func() { s.Failed("c", errDown, true, clock(2)) },
			func() { s.Observed("a", primary(3, 1, 10, 2), nil) },
		} {
			if tell(); named(s) != "" {
				t.Fatalf("%s: %s is named after %d answers", name, named(s), i)
			}
			if _, decided := s.Topology(clock(2)); decided {
				t.Fatalf("%s: it is said after %d answers that there is no primary", name, i)
			}
		}
		if c.last(s); named(s) != c.want {
			t.Errorf("%s: primary is %q, want %q", name, named(s), c.want)
		}
	}
}

// The configuration is changed while the former primary is up: what it says of the promoted
// server is not taken for the end of that one.
func TestAnotherConfigurationDoesNotNameTheFormerPrimary(t *testing.T) {
	for name, c := range map[string]struct {
		b    config.Backend
		last func(s *State)
		want string
	}{
		"another address":                {config.Backend{Name: "b", Address: "h:9"}, func(s *State) { s.Observed("b", primary(1, 2, 9, 3), branch) }, "b"},
		"another address, no answer":     {config.Backend{Name: "b", Address: "h:9"}, func(s *State) { s.Failed("b", errDown, true, clock(3)) }, ""},
		"another address, rebuilt there": {config.Backend{Name: "b", Address: "h:9"}, func(s *State) { s.Observed("b", replica(1, 1, 9, 3), nil) }, "a"},
		"another name":                   {config.Backend{Name: "x", Address: "h:2"}, func(s *State) { s.Observed("x", primary(1, 2, 9, 3), branch) }, "x"},
		"another name, no answer":        {config.Backend{Name: "x", Address: "h:2"}, func(s *State) { s.Failed("x", errDown, true, clock(3)) }, ""},
	} {
		s := newState()
		s.Observed("a", primary(3, 1, 9, 0), nil)
		s.Observed("b", primary(1, 2, 9, 0), branch)
		s.Configure([]config.Backend{backends[0], c.b}, clock(1))
		s.Observed("a", primary(3, 1, 10, 2), nil)
		if got, _ := s.Topology(clock(2)); got.Primary != "b" || got.Members[1].Address != "h:2" {
			t.Errorf("%s: %q of %+v before it was asked", name, got.Primary, got.Members)
		}
		if c.last(s); named(s) != c.want {
			t.Errorf("%s: primary is %q, want %q", name, named(s), c.want)
		}
	}
	s := newState()
	s.Observed("a", primary(3, 1, 9, 0), nil)
	s.Observed("b", primary(1, 2, 9, 0), branch)
	if s.Configure(backends[:1], clock(1)); named(s) != "a" {
		t.Errorf("the promoted server was taken out of the configuration, and the primary is %q", named(s))
	}
}

// Two names are swapped: what was known of the primary's is not of the server that has it now.
func TestSwappedAddresses(t *testing.T) {
	s := newState()
	s.Observed("a", replica(3, 2, 9, 0), branch)
	s.Observed("b", primary(1, 2, 9, 0), branch)
	s.Configure([]config.Backend{{Name: "a", Address: "h:2"}, {Name: "b", Address: "h:1"}}, clock(1))
	s.Failed("a", errDown, true, clock(2))
	if s.Observed("b", replica(3, 2, 9, 3), branch); named(s) != "" {
		t.Errorf("%q is named", named(s))
	}
	if s.Observed("a", primary(1, 2, 9, 4), branch); named(s) != "a" {
		t.Errorf("the primary is %q", named(s))
	}
}
