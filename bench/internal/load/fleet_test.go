package load

import (
	"context"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/pgpilot/pgpilot/bench/internal/workload"
)

func options(t *testing.T, dsn, name string) Options {
	t.Helper()
	w, err := workload.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	return Options{
		DSNs: []string{dsn}, Workload: w, Protocol: workload.Simple, Clients: 4,
		Measure: 200 * time.Millisecond, Seed: 1, Rows: 200_000,
	}
}

func run(t *testing.T, o Options, begin func()) Result {
	t.Helper()
	f, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := f.Run(t.Context(), begin, func() {})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A closed loop counts what was answered.
func TestClosedLoop(t *testing.T) {
	answer := encode(t, row("1"), ready)
	var asked atomic.Int64
	s := serve(t, func(string) []byte { asked.Add(1); return answer })
	o := options(t, s.dsn, "select")
	o.Threads, o.Idle = 2, 3
	r := run(t, o, func() {})
	if r.Transactions == 0 || r.Errors != 0 || r.Lost != 0 {
		t.Errorf("%+v", r)
	}
	if r.Transactions > asked.Load() || r.Transactions < asked.Load()-int64(o.Clients) {
		t.Errorf("%d transactions were counted of %d", r.Transactions, asked.Load())
	}
	if r.Latency.TotalCount() != r.Transactions+r.Unserved {
		t.Errorf("%d latencies of %d transactions", r.Latency.TotalCount(), r.Transactions)
	}
}

// A server that stalls is charged for every arrival of that time, not for one per
// client: the omission that this package exists to avoid.
func TestStallIsCharged(t *testing.T) {
	answer := encode(t, row("1"), ready)
	release := make(chan struct{})
	var stalled atomic.Bool
	s := serve(t, func(string) []byte {
		if stalled.Load() {
			<-release
		}
		return answer
	})
	o := options(t, s.dsn, "select")
	const rate, stall = 2000, 300 * time.Millisecond
	o.Rate, o.Measure = rate, 2*stall
	var timer *time.Timer
	r := run(t, o, func() {
		stalled.Store(true)
		timer = time.AfterFunc(stall, func() { stalled.Store(false); close(release) })
	})
	timer.Stop()
	if r.Errors != 0 || r.Unserved != 0 {
		t.Fatalf("%+v", r)
	}
	// About half of all that arrived did so during the stall, and waited for half of it on
	// average. With one sample per client there would be four of about 1,200.
	slow := int64(0)
	for _, bar := range r.Latency.Distribution() {
		if bar.From > int64(stall)/10 {
			slow += bar.Count
		}
	}
	if total := r.Latency.TotalCount(); slow < total/4 {
		t.Errorf("%d of %d transactions were slow although the server stalled half of the time", slow, total)
	}
}

// Arrivals that are never served count, with the time they have waited.
func TestUnservedIsCharged(t *testing.T) {
	s := serve(t, func(string) []byte { return nil })
	o := options(t, s.dsn, "select")
	o.Rate = 1000
	r := run(t, o, func() {})
	if r.Transactions != 0 || r.Lost != int64(o.Clients) {
		t.Errorf("%+v", r)
	}
	if want := o.Rate * o.Measure.Seconds(); float64(r.Latency.TotalCount()) < want/2 {
		t.Errorf("%d latencies although about %.0f arrived", r.Latency.TotalCount(), want)
	}
	if !strings.Contains(r.FirstError, "closed") {
		t.Errorf("the first error is %q", r.FirstError)
	}
}

func TestErrorsAndStaleReads(t *testing.T) {
	failure := encode(t, &pgproto3.ErrorResponse{Severity: "ERROR", Code: "55000", Message: "no"}, ready)
	s := serve(t, func(string) []byte { return failure })
	r := run(t, options(t, s.dsn, "select"), func() {})
	if r.Transactions != 0 || r.Errors == 0 || !strings.Contains(r.FirstError, "55000") {
		t.Errorf("with a server that fails: %+v", r)
	}
	// This one forgets every write.
	done, old := encode(t, &pgproto3.CommandComplete{CommandTag: []byte("UPDATE 1")}, ready), encode(t, row("0"), ready)
	s = serve(t, func(query string) []byte {
		if strings.HasPrefix(query, "UPDATE") {
			return done
		}
		return old
	})
	r = run(t, options(t, s.dsn, "writeread"), func() {})
	if r.Transactions == 0 || r.Stale != r.Transactions || r.Statements != 2*r.Transactions {
		t.Errorf("with a server that forgets: %+v", r)
	}
}

func TestConnectPerTransaction(t *testing.T) {
	answer := encode(t, row("1"), ready)
	var mu sync.Mutex
	queries := 0
	s := serve(t, func(string) []byte { mu.Lock(); queries++; mu.Unlock(); return answer })
	r := run(t, options(t, s.dsn, "connect"), func() {})
	if r.Transactions == 0 || r.Errors != 0 || r.Connects != r.Transactions {
		t.Errorf("%+v", r)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if mu.Lock(); queries != len(s.conns) {
		t.Errorf("%d queries over %d connections", queries, len(s.conns))
	}
	mu.Unlock()
}

// slowConn takes longer to write than pgconn waits before it starts to read at the same
// time, as on a machine that is busy.
type slowConn struct{ net.Conn }

func (c slowConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	time.Sleep(30 * time.Millisecond)
	return n, err
}

// The reader that pgconn starts when a write takes long must not take the answer away.
func TestConnectOverSlowConnections(t *testing.T) {
	answer := encode(t, row("1"), ready)
	s := serve(t, func(string) []byte { return answer })
	f, err := Open(t.Context(), options(t, s.dsn, "connect"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	f.configs[0].DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		return slowConn{conn}, err
	}
	r, err := f.Run(t.Context(), func() {}, func() {})
	if err != nil {
		t.Fatal(err)
	}
	if r.Errors > 0 || r.Transactions == 0 {
		t.Errorf("%d transactions, %d errors: %s", r.Transactions, r.Errors, r.FirstError)
	}
}

func TestOpenRefuses(t *testing.T) {
	o := options(t, "postgres://u@127.0.0.1:1/d?sslmode=disable&connect_timeout=1", "select")
	if f, err := Open(t.Context(), o); err == nil {
		f.Close()
		t.Error("connected to nothing")
	}
	for name, change := range map[string]func(*Options){
		"no clients":           func(o *Options) { o.Clients = 0 },
		"no time":              func(o *Options) { o.Measure = 0 },
		"no workload":          func(o *Options) { o.Workload = nil },
		"a rate of reconnects": func(o *Options) { o.Rate = 1; o.Workload, _ = workload.Find("connect") },
	} {
		o := options(t, "postgres://u@127.0.0.1:1/d", "select")
		change(&o)
		if f, err := Open(t.Context(), o); err == nil {
			f.Close()
			t.Errorf("%s: accepted", name)
		}
	}
}
