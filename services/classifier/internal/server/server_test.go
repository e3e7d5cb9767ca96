package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/pgpilot/pgpilot/libs/rundir"
	"github.com/pgpilot/pgpilot/libs/sqltoken"
	"github.com/pgpilot/pgpilot/libs/verdict"
)

const maxText = 100

// clerk knows the verdicts in it; a question about another is put to the test.
type clerk struct {
	known  map[sqltoken.Key]verdict.Verdict
	decide func(*verdict.Request) (verdict.Verdict, error)
}

func (c *clerk) Recall(r *verdict.Request) (verdict.Verdict, bool) {
	v, ok := c.known[r.Key]
	return v, ok
}

func (c *clerk) Decide(r *verdict.Request) (verdict.Verdict, error) { return c.decide(r) }

// serving is a Server and a connected router.
type serving struct {
	*Server
	socket string
	conn   net.Conn
	stop   context.CancelFunc
	result chan error
}

func serve(t *testing.T, k Clerk) *serving {
	t.Helper()
	p, err := os.MkdirTemp("", "cs")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(p) })
	dir, err := rundir.Open(p)
	if err != nil {
		t.Fatal(err)
	}
	claim, err := dir.Claim(rundir.Classifier, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { claim.Close() })
	l, err := claim.Listen()
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(k, maxText, prometheus.NewRegistry(), slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	x := &serving{Server: s, socket: dir.Socket(rundir.Classifier, claim.ID()), stop: cancel, result: make(chan error, 1)}
	go func() { x.result <- s.Serve(ctx, l) }()
	if x.conn, err = rundir.Dial(ctx, x.socket); err != nil {
		t.Fatal(err)
	}
	_ = x.conn.SetDeadline(time.Now().Add(30 * time.Second)) // a hanging test ends with a reason
	t.Cleanup(func() {
		x.conn.Close()
		x.end(t)
	})
	return x
}

// end stops the server and waits for all of it.
func (x *serving) end(t *testing.T) {
	t.Helper()
	x.stop()
	if err := <-x.result; err != nil {
		t.Errorf("Serve: %v", err)
	}
	x.result <- nil
}

func (x *serving) send(t *testing.T, id uint64, key byte, text string) {
	t.Helper()
	b, err := verdict.AppendRequest(nil, id, &verdict.Request{Key: sqltoken.Key{key}, Database: "d", Text: text})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := x.conn.Write(b); err != nil {
		t.Fatal(err)
	}
}

func TestASlowTextHoldsUpNobody(t *testing.T) {
	let := make(chan struct{})
	x := serve(t, &clerk{
		known: map[sqltoken.Key]verdict.Verdict{{1}: {Kind: verdict.Read}},
		decide: func(r *verdict.Request) (verdict.Verdict, error) {
			if r.Text == "slow" {
				<-let
			}
			return verdict.Verdict{Fingerprint: uint64(r.Key[0])}, nil
		},
	})
	x.send(t, 10, 9, "slow")
	x.send(t, 11, 1, "known")
	x.send(t, 12, 2, "quick")
	r := verdict.NewResponseReader(x.conn)
	got := map[uint64]verdict.Verdict{}
	for range 2 {
		id, v, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		got[id] = v
	}
	if got[11].Kind != verdict.Read || got[12].Fingerprint != 2 {
		t.Fatalf("answered %v", got)
	}
	close(let)
	if id, v, err := r.Next(); err != nil || id != 10 || v.Fingerprint != 9 {
		t.Fatalf("then %d, %v, %v", id, v, err)
	}
	if n := testutil.ToFloat64(x.metrics.requests); n != 3 {
		t.Fatalf("counted %v requests", n)
	}
}

// A text that is too long says nothing of shorter ones of its template.
func TestOverlongTextHasNoVerdict(t *testing.T) {
	x := serve(t, &clerk{decide: func(r *verdict.Request) (verdict.Verdict, error) {
		return verdict.Verdict{Kind: verdict.Read}, nil
	}})
	r := verdict.NewResponseReader(x.conn)
	x.send(t, 1, 1, strings.Repeat("x", maxText+1))
	if id, v, err := r.Next(); !errors.Is(err, verdict.ErrNoVerdict) || id != 1 {
		t.Fatalf("got %d, %v, %v", id, v, err)
	}
	x.send(t, 2, 1, strings.Repeat("x", maxText))
	if id, v, err := r.Next(); err != nil || id != 2 || v.Kind != verdict.Read {
		t.Fatalf("got %d, %v, %v", id, v, err)
	}
	if n := testutil.ToFloat64(x.metrics.tooLong); n != 1 {
		t.Fatalf("counted %v", n)
	}
}

// Long texts that wait take a bounded amount of memory, and leave room for the short.
func TestLongTextsThatWaitAreBounded(t *testing.T) {
	let := make(chan struct{})
	x := serve(t, &clerk{decide: func(r *verdict.Request) (verdict.Verdict, error) {
		if len(r.Text) >= longText {
			<-let
		}
		return verdict.Verdict{Kind: verdict.Read}, nil
	}})
	x.SetMaxText(1 << 20)
	x.conn.Close()
	var err error
	if x.conn, err = rundir.Dial(t.Context(), x.socket); err != nil {
		t.Fatal(err)
	}
	_ = x.conn.SetDeadline(time.Now().Add(30 * time.Second))
	r := verdict.NewResponseReader(x.conn)
	const fit = maxLong >> 20
	for id := range uint64(fit + 4) {
		x.send(t, id, byte(id), strings.Repeat("x", 1<<20))
	}
	for range 4 {
		if id, _, err := r.Next(); !errors.Is(err, verdict.ErrNoVerdict) || id < fit {
			t.Fatalf("%d: %v, want no verdict on what comes when there is no room", id, err)
		}
	}
	x.send(t, 100, 100, strings.Repeat("x", longText-1))
	if id, v, err := r.Next(); err != nil || id != 100 || v.Kind != verdict.Read {
		t.Fatalf("a short one: %d, %v, %v", id, v, err)
	}
	close(let)
	for range fit {
		if id, v, err := r.Next(); err != nil || id >= fit || v.Kind != verdict.Read {
			t.Fatalf("one that waited: %d, %v, %v", id, v, err)
		}
	}
	x.conn.Close()
	x.end(t)
	if n := x.long.Load(); n != 0 {
		t.Errorf("%d bytes are still counted", n)
	}
}

func TestNoVerdictIsSaid(t *testing.T) {
	x := serve(t, &clerk{decide: func(*verdict.Request) (verdict.Verdict, error) {
		return verdict.Unclassified(), errors.New("nobody is free")
	}})
	x.send(t, 7, 1, "x")
	if id, _, err := verdict.NewResponseReader(x.conn).Next(); !errors.Is(err, verdict.ErrNoVerdict) || id != 7 {
		t.Fatalf("got %d, %v", id, err)
	}
}

func TestGarbageEndsItsConnection(t *testing.T) {
	x := serve(t, &clerk{})
	if _, err := x.conn.Write([]byte("GET / HTTP/1.1\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(x.conn); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal("the connection stays open")
	}
}

func TestTheEndAnswersWhatWasRead(t *testing.T) {
	begun, let := make(chan struct{}), make(chan struct{})
	x := serve(t, &clerk{decide: func(*verdict.Request) (verdict.Verdict, error) {
		close(begun)
		<-let
		return verdict.Verdict{Kind: verdict.Read}, nil
	}})
	x.send(t, 1, 1, "x")
	<-begun
	x.stop()
	close(let)
	r := verdict.NewResponseReader(x.conn)
	if id, v, err := r.Next(); err != nil || id != 1 || v.Kind != verdict.Read {
		t.Fatalf("got %d, %v, %v", id, v, err)
	}
	if _, _, err := r.Next(); err != io.EOF {
		t.Fatalf("then %v, want the end", err)
	}
}

// A router of the previous version is answered in it; one that is newer is told, in the
// newest version that there is here, that there is no verdict, and may ask again in that.
func TestEachRouterIsAnsweredInItsVersion(t *testing.T) {
	x := serve(t, &clerk{decide: func(*verdict.Request) (verdict.Verdict, error) {
		return verdict.Verdict{Kind: verdict.Read, Detail: &verdict.Detail{}}, nil
	}})
	r := verdict.NewResponseReader(x.conn)
	for id, c := range []struct {
		asked, answered verdict.Version
		err             error
	}{
		{verdict.Newest, verdict.Newest, nil},
		{verdict.Oldest, verdict.Oldest, nil},
		{verdict.Newest + 1, verdict.Newest, verdict.ErrNoVerdict},
		{verdict.Oldest - 1, verdict.Newest, verdict.ErrNoVerdict},
	} {
		b, err := verdict.AppendRequest(nil, uint64(id), &verdict.Request{Key: sqltoken.Key{byte(id)}, Text: "SELECT 1"})
		if err != nil {
			t.Fatal(err)
		}
		b[4+8] = byte(c.asked)
		if _, err := x.conn.Write(b); err != nil {
			t.Fatal(err)
		}
		got, v, err := r.Next()
		if got != uint64(id) || !errors.Is(err, c.err) || r.Version() != c.answered || (v.Kind == verdict.Read) != (c.err == nil) {
			t.Errorf("version %d: answer %d in version %d, %+v, %v", c.asked, got, r.Version(), v, err)
		}
	}
	if n := testutil.ToFloat64(x.metrics.foreign); n != 2 {
		t.Errorf("%v requests counted as foreign, want 2", n)
	}
}

// A router that asks and asks and reads no answer is not read any more; when it
// goes, all its goroutines go.
func TestARouterThatDoesNotReadIsHeldBack(t *testing.T) {
	x := serve(t, &clerk{decide: func(*verdict.Request) (verdict.Verdict, error) { return verdict.Verdict{}, nil }})
	b, err := verdict.AppendRequest(nil, 1, &verdict.Request{Text: strings.Repeat("x", maxText)})
	if err != nil {
		t.Fatal(err)
	}
	_ = x.conn.SetWriteDeadline(time.Now().Add(500 * time.Millisecond))
	var sent int
	for err == nil && sent < 200_000 {
		_, err = x.conn.Write(b)
		sent++
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("%d questions were taken without an end: %v", sent, err)
	}
	x.conn.Close()
	x.end(t)
	if n := testutil.ToFloat64(x.metrics.connections); n != 0 {
		t.Fatalf("%v connections left", n)
	}
}

func TestManyRoutersAtOnce(t *testing.T) {
	x := serve(t, &clerk{decide: func(r *verdict.Request) (verdict.Verdict, error) {
		return verdict.Verdict{Fingerprint: uint64(r.Key[0])}, nil
	}})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			c, err := net.Dial("unix", x.socket)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			r := verdict.NewResponseReader(c)
			for i := range 200 {
				b, _ := verdict.AppendRequest(nil, uint64(i), &verdict.Request{Key: sqltoken.Key{byte(i)}})
				if _, err := c.Write(b); err != nil {
					t.Error(err)
					return
				}
				if id, v, err := r.Next(); err != nil || id != uint64(i) || v.Fingerprint != uint64(byte(i)) {
					t.Errorf("got %d, %v, %v", id, v, err)
					return
				}
			}
		})
	}
	wg.Wait()
}
