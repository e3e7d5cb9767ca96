package verdict

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/libs/rundir"
	"github.com/pgpilot/pgpilot/libs/sqltoken"
)

// patience is how long a test waits for what must come.
const patience = 30 * time.Second

// long is a timeout that no test reaches.
const long = time.Hour

func runDir(t *testing.T) *rundir.Dir {
	t.Helper()
	p, err := os.MkdirTemp("", "vd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(p) })
	d, err := rundir.Open(p)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func newClient(t *testing.T, d *rundir.Dir, change func(*Options)) *Client {
	t.Helper()
	o := Options{Dir: d, Log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})),
		Timeout: long, MaxText: 1 << 20}
	if change != nil {
		change(&o)
	}
	c := NewClient(o)
	t.Cleanup(c.Close)
	return c
}

// classifier is a scripted one: the test answers its questions.
type classifier struct {
	t     *testing.T
	claim *rundir.Claim
	l     *rundir.Socket
	asked chan *question
	wg    sync.WaitGroup

	once  sync.Once
	mu    sync.Mutex
	conns []net.Conn
}

type question struct {
	Request
	version Version
	id      uint64
	conn    net.Conn
}

func (q *question) answer(t *testing.T, v Verdict) {
	t.Helper()
	if _, err := q.conn.Write(AppendResponse(nil, q.id, v)); err != nil {
		t.Fatal(err)
	}
}

func startClassifier(t *testing.T, d *rundir.Dir, id string) *classifier {
	t.Helper()
	claim, err := d.Claim(rundir.Classifier, id)
	if err != nil {
		t.Fatal(err)
	}
	l, err := claim.Listen()
	if err != nil {
		t.Fatal(err)
	}
	c := &classifier{t: t, claim: claim, l: l, asked: make(chan *question, 1000)}
	c.wg.Go(c.accept)
	t.Cleanup(c.kill)
	return c
}

func (c *classifier) accept() {
	for {
		conn, err := c.l.Accept()
		if err != nil {
			return
		}
		c.mu.Lock()
		c.conns = append(c.conns, conn)
		c.mu.Unlock()
		c.wg.Go(func() {
			r := NewRequestReader(conn, 1<<20)
			for {
				id, req, err := r.Next()
				if err != nil {
					return
				}
				c.asked <- &question{req, r.Version(), id, conn}
			}
		})
	}
}

// hangUp breaks the connections, but goes on accepting.
func (c *classifier) hangUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		conn.Close()
	}
	c.conns = nil
}

// kill ends the classifier.
func (c *classifier) kill() {
	c.once.Do(func() {
		c.l.Close()
		c.claim.Close()
		c.hangUp()
		c.wg.Wait()
	})
}

func (c *classifier) next() *question {
	c.t.Helper()
	select {
	case q := <-c.asked:
		return q
	case <-time.After(patience):
		c.t.Fatal("the classifier was not asked")
		return nil
	}
}

type delivery struct {
	v   Verdict
	err error
}

func put(c *Client, text string) chan delivery {
	got := make(chan delivery, 2)
	c.Ask(Request{Key: sqltoken.Key{byte(len(text))}, Database: "app", Text: text}, func(v Verdict, err error) { got <- delivery{v, err} })
	return got
}

func wait(t *testing.T, got chan delivery) delivery {
	t.Helper()
	select {
	case d := <-got:
		return d
	case <-time.After(patience):
		t.Fatal("no answer was delivered")
		return delivery{}
	}
}

func wantError(t *testing.T, got chan delivery, want error) {
	t.Helper()
	if d := wait(t, got); !errors.Is(d.err, want) || d.v != Unclassified() {
		t.Fatalf("delivered %+v, %v; want unclassified and %v", d.v, d.err, want)
	}
}

func connected(t *testing.T, c *Client, n int) {
	t.Helper()
	until(t, "the number of connected classifiers changes", func() bool { return c.Connected() == n })
}

func until(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !cond() {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}
