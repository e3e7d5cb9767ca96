package main

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgpilot/pgpilot/services/listener/internal/routertest"
)

// answering is a fake router that answers cancel requests when the test says so.
func answering(id string) *routertest.Router {
	return &routertest.Router{ID: id, Answers: true}
}

// canceling is a cancel request whose connection may still be open.
type canceling struct {
	t    *testing.T
	l    *listener
	over chan error
}

func (l *listener) cancel(c *pgconn.PgConn) *canceling {
	k := &canceling{l.t, l, make(chan error, 1)}
	ctx, stop := context.WithTimeout(context.Background(), patience)
	l.t.Cleanup(stop)
	go func() { k.over <- c.CancelRequest(ctx) }()
	return k
}

// open checks that the request's connection is still open, after the listener has had
// time for other things.
func (k *canceling) open(while string) {
	k.t.Helper()
	for range 3 {
		k.l.close(k.l.connect())
	}
	select {
	case err := <-k.over:
		k.t.Fatalf("the request's connection was closed (%v) %s", err, while)
	default:
	}
}

// closed waits until the listener has closed the request's connection.
func (k *canceling) closed() {
	k.t.Helper()
	if err := <-k.over; err != nil {
		k.t.Fatal(err)
	}
}

// The end of a cancel request's connection says to its client that the request cannot
// hit its next statement (rule 31).
func TestCancelIsOverWhenTheRouterSaysSo(t *testing.T) {
	l := start(t, nil)
	a, b := l.router(answering("1")), l.router(answering("2"))
	c := l.connect()
	k := l.cancel(c)
	atA, atB := <-a.Cancels, <-b.Cancels
	k.open("before a router has answered")
	atA.Answer(t, true)
	k.closed() // whatever the other one does
	atB.Answer(t, false)

	k = l.cancel(c)
	atA, atB = <-a.Cancels, <-b.Cancels
	atA.Answer(t, false)
	k.open("while a router may have the session")
	atB.Answer(t, false)
	k.closed()
}

func TestCancelWithoutAnswer(t *testing.T) {
	t.Run("earlier release", func(t *testing.T) {
		l := start(t, nil)
		a, old := l.router(answering("1")), l.router(newRouter("2"))
		k := l.cancel(l.connect())
		<-old.Cancels
		at := <-a.Cancels
		k.open("before the router that answers has")
		at.Answer(t, false)
		k.closed()
	})
	t.Run("dead", func(t *testing.T) {
		l := start(t, nil)
		a := l.router(answering("1"))
		k := l.cancel(l.connect())
		<-a.Cancels
		a.Kill()
		k.closed()
	})
	t.Run("hung", func(t *testing.T) {
		l := start(t, nil)
		a := l.router(answering("1"))
		c := l.connect()
		k := l.cancel(c)
		late := <-a.Cancels
		k.closed()
		late.Answer(t, true)
		k = l.cancel(c)
		at := <-a.Cancels
		at.Answer(t, true)
		k.closed()
	})
	t.Run("no router", func(t *testing.T) {
		l := start(t, nil)
		a := l.router(newRouter("1"))
		c := l.connect()
		a.Kill()
		l.wait("no router is left", func() bool { return l.gauge("pgpilot_listener_routers") == 0 })
		l.cancel(c).closed()
	})
}
