package load

import (
	"strings"
	"sync/atomic"
	"testing"
)

// Clients that choose between servers have a connection to each kind, and each statement
// goes to its own.
func TestClientsThatChooseBetweenServers(t *testing.T) {
	answer := encode(t, row("1"), ready)
	var reads, writes, astray atomic.Int64
	server := func(count *atomic.Int64, mine func(query string) bool) *scripted {
		return serve(t, func(query string) []byte {
			count.Add(1)
			if !mine(query) {
				astray.Add(1)
			}
			return answer
		})
	}
	reading := func(query string) bool { return strings.HasPrefix(query, "SELECT") }
	replica := server(&reads, reading)
	primary := server(&writes, func(query string) bool { return !reading(query) })
	o := options(t, replica.dsn, "mixed")
	o.Writes = primary.dsn
	r := run(t, o, func() {})
	if r.Transactions == 0 || r.Errors != 0 || r.Lost != 0 {
		t.Errorf("%+v", r)
	}
	if reads.Load() == 0 || writes.Load() == 0 || astray.Load() > 0 {
		t.Errorf("%d reads, %d writes, %d of them at the wrong server", reads.Load(), writes.Load(), astray.Load())
	}
}

// A connection that is lost while the other one is at work ends its client once.
func TestTheOtherConnectionIsLost(t *testing.T) {
	answer := encode(t, row("1"), ready)
	replica := serve(t, func(string) []byte { return answer })
	primary := serve(t, func(string) []byte { return answer })
	o := options(t, replica.dsn, "select") // nothing is ever asked of the primary
	o.Writes = primary.dsn
	r := run(t, o, primary.hangUp)
	if r.Lost != int64(o.Clients) || r.Errors != r.Lost {
		t.Errorf("%+v", r)
	}
}

func TestNoChoiceForThoseWhoConnectAnew(t *testing.T) {
	o := options(t, "postgres://u@127.0.0.1:1/d", "connect")
	o.Writes = o.DSNs[0]
	if _, err := Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), "choose between servers") {
		t.Errorf("%v", err)
	}
}
