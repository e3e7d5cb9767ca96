package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/stack/stacktest"
)

func TestWalk(t *testing.T) {
	p := stacktest.Start(t, stacktest.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var out bytes.Buffer
	say := newNarrator(&out, true)
	if err := newWalk(p.Stack, p.Lab, p.Config(), say).run(ctx); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, want := range []string{
		"SELECT inet_server_port()", "(replica), reason read", "fence_fallback", "bytes behind", "ermissions violation",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in the story:\n%s", want, out.String())
		}
	}
	for _, st := range p.Lab.Status(ctx) {
		if st.Paused {
			t.Errorf("the replay of %s is still paused", st.Member.Name)
		}
	}
}

// What the demo tells is checked while it is told: here nothing is read on a replica.
func TestWalkNoticesWhatIsNotSo(t *testing.T) {
	p := stacktest.Start(t, stacktest.Options{Configure: func(c *config.Config) { c.Routing.AllToPrimary = true }})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var out bytes.Buffer
	err := newWalk(p.Stack, p.Lab, p.Config(), newNarrator(&out, true)).run(ctx)
	if err == nil || !strings.Contains(err.Error(), "not on a replica") {
		t.Fatalf("the walk says %v\n%s", err, out.String())
	}
}
