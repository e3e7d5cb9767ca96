package e2e

import (
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/pgpilot/pgpilot/libs/rundir"
)

// allowance is how much memory a router may take to pass something large through.
const allowance = 32 << 20

// passes runs f and fails the test if the router's memory grew by more than the
// allowance meanwhile.
func (r *rig) passes(t *testing.T, f func()) {
	t.Helper()
	p := r.Service(rundir.Router, 1)
	forgetPeak(t, p)
	before := peakMemory(t, p)
	f()
	grown := peakMemory(t, p) - before
	t.Logf("the router grew by %d KiB", grown>>10)
	if grown > allowance {
		t.Errorf("the router grew by %d MiB, from %d MiB", grown>>20, before>>20)
	}
}

func TestLargeMessagesNeedLittleMemory(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := newRig(t, cluster, nil)
	other := r.connect()
	other.must("CREATE TABLE blobs (id int, data text)")

	for name, result := range map[string]struct {
		sql  string
		size int64
	}{
		"many rows":     {"SELECT repeat('x', 1000) FROM generate_series(1, 250000)", 250_000_000},
		"one large row": {"SELECT repeat('x', 200000000)", 200_000_000},
	} {
		t.Run("result, "+name, func(t *testing.T) {
			r.passes(t, func() {
				w := hijack(t, r.connect())
				w.front.SendQuery(&pgproto3.Query{String: result.sql})
				if err := w.front.Flush(); err != nil {
					t.Fatal(err)
				}
				read := int64(0)
				take := func(n int64) {
					got, err := io.CopyN(io.Discard, w.conn.Conn, n)
					read += got
					if err != nil {
						t.Fatalf("after %d bytes: %v", read, err)
					}
				}
				take(100_000)
				// The reader is slow: it reads nothing more until these are done.
				for n := range 200 {
					other.must(fmt.Sprintf("INSERT INTO blobs VALUES (%d, 'small')", n))
					other.must(fmt.Sprintf("SELECT data FROM blobs WHERE id = %d", n))
				}
				take(result.size - 200_000)
			})
		})
	}
	t.Run("statement", func(t *testing.T) {
		text := strings.Repeat("y", 64<<20)
		r.passes(t, func() {
			other.must("INSERT INTO blobs VALUES (-1, '" + text + "')")
		})
		if got := other.one("SELECT length(data) FROM blobs WHERE id = -1"); got != fmt.Sprint(len(text)) {
			t.Errorf("%s characters arrived", got)
		}
	})
	t.Run("parameter", func(t *testing.T) {
		text := strings.Repeat("z", 4*allowance)
		c := r.connect()
		r.passes(t, func() {
			res := c.conn.ExecParams(timeout(t), "INSERT INTO blobs VALUES (-2, $1)", [][]byte{[]byte(text)}, nil, nil, nil).Read()
			if res.Err != nil {
				t.Fatal(res.Err)
			}
		})
		res := c.conn.ExecParams(timeout(t), "SELECT length(data) FROM blobs WHERE id = $1", [][]byte{[]byte("-2")}, nil, nil, nil).Read()
		if res.Err != nil || string(res.Rows[0][0]) != fmt.Sprint(len(text)) {
			t.Errorf("%v, %v", res.Rows, res.Err)
		}
	})
}

// Nothing of a session is left once it has ended.
func TestEndedSessionsLeaveNothing(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	// One connection to each server: the next visitor waits where the last one's is not free
	// yet, and opens no other.
	r := newRig(t, cluster, narrow(1))
	direct(t, cluster.Primary()).must("CREATE TABLE t (a int); GRANT ALL ON t TO PUBLIC")
	r.caughtUp()
	visit := func() {
		c := r.connect()
		c.must("INSERT INTO t VALUES (1)")
		c.must("SELECT count(*) FROM t WHERE a = 2")
		c.close()
	}
	services := []string{rundir.Listener, rundir.Router}
	count := func() map[string]int {
		n := map[string]int{}
		for _, s := range services {
			n[s+" descriptors"] = descriptors(t, r.Service(s, 1))
			n[s+" goroutines"] = int(r.metric("go_goroutines", "service", s))
		}
		return n
	}
	// The first visits make what is kept: pooled connections, the probe.
	for range 50 {
		visit()
	}
	r.awaitReplicas(cluster.Replicas()...)
	r.until("the first sessions are over", func() bool { return r.sessionsOn(1) == 0 })
	before := count()
	// Some leave without a word, in the middle of something, or before they are in.
	for n := range 1000 {
		switch n % 10 {
		case 7:
			c := r.connect()
			c.must("BEGIN; INSERT INTO t VALUES (2)")
			_ = c.conn.Conn().Close()
		case 8:
			w := hijack(t, r.connect())
			w.front.SendQuery(&pgproto3.Query{String: "SELECT repeat('x', 1000000)"})
			if err := w.front.Flush(); err != nil {
				t.Fatal(err)
			}
			_ = w.conn.Conn.Close()
		case 9:
			raw, err := net.Dial("tcp", r.cfg.Listen)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := raw.Write([]byte{0, 0, 0, 80, 0, 3}); err != nil { // the beginning of a startup packet
				t.Fatal(err)
			}
			_ = raw.Close()
		default:
			visit()
		}
	}
	r.until("all sessions are over", func() bool { return r.sessionsOn(1) == 0 })
	var after map[string]int
	r.until("everything is as before", func() bool {
		after = count()
		for what, n := range after {
			if n > before[what]+2 {
				return false
			}
		}
		return true
	})
	t.Logf("before: %v, after: %v", before, after)
}

// TestManyParametersAreDescribedUnseen prepares a statement with so many parameters that its
// description comes in pieces, and executes it where it has to be prepared again: of that
// its client sees nothing.
func TestManyParametersAreDescribedUnseen(t *testing.T) {
	t.Parallel()
	const parameters = 20000
	r := newRig(t, newCluster(t), narrow(2))
	other := r.connect()
	other.must("CREATE TABLE wide (id int)")
	types := slices.Repeat([]uint32{23}, parameters)
	values := slices.Repeat([][]byte{[]byte("1")}, parameters)
	w := hijack(t, r.connect())
	w.send([]pgproto3.FrontendMessage{
		&pgproto3.Parse{Name: "w", Query: "INSERT INTO wide VALUES ($1)", ParameterOIDs: types}, &pgproto3.Describe{ObjectType: 'S', Name: "w"}, &pgproto3.Sync{},
	}, 1)
	for range 2 { // on one connection or on the other
		got := strings.Join(w.send([]pgproto3.FrontendMessage{
			&pgproto3.Bind{PreparedStatement: "w", Parameters: values}, &pgproto3.Execute{}, &pgproto3.Sync{},
		}, 1), "\n")
		if want := "2 \"\"\nC \"INSERT 0 1|\"\nZ \"I\""; got != want {
			t.Fatalf("%.300s\nwant\n%s", got, want)
		}
		other.must("BEGIN; INSERT INTO wide VALUES (2)") // keeps the one that was used last
	}
}
