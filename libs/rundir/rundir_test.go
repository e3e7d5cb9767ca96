package rundir

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pgpilot/pgpilot/libs/handoff/handofftest"
)

var discard = slog.New(slog.DiscardHandler)

// tempDir is a temporary folder whose path leaves room for a socket's name, which
// t.TempDir with the test's name in it does not.
func tempDir(t *testing.T) string {
	t.Helper()
	p, err := os.MkdirTemp("", "rd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(p) })
	return p
}

func open(t *testing.T) *Dir {
	t.Helper()
	d, err := Open(filepath.Join(tempDir(t), "run"))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestOpenRefusesADirectoryOthersCanEnter(t *testing.T) {
	p := filepath.Join(tempDir(t), "run")
	if err := os.Mkdir(p, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(p); err == nil || !strings.Contains(err.Error(), "chmod 700") {
		t.Fatalf("got %v, want advice to chmod 700", err)
	}
}

func TestOpenRefusesAPathTooLongForASocket(t *testing.T) {
	if _, err := Open("/tmp/" + strings.Repeat("x", 90)); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Fatalf("got %v, want a complaint about the length", err)
	}
}

func TestClaimIsExclusive(t *testing.T) {
	d := open(t)
	a, err := d.Claim(Router, "1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Claim(Router, "1"); !errors.Is(err, ErrTaken) {
		t.Fatalf("second claim of one id: got %v, want ErrTaken", err)
	}
	b, err := d.Claim(Router, "")
	if err != nil || b.ID() != "2" {
		t.Fatalf("automatic id: got %v, %v; want 2", b, err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if a, err = d.Claim(Router, ""); err != nil || a.ID() != "1" {
		t.Fatalf("a freed id is used again: got %v, %v", a, err)
	}
	if _, err := d.Claim(Router, "../x"); err == nil {
		t.Fatal("an id with a path in it must be refused")
	}
}

func TestRunningShowsThoseWithoutASocketToo(t *testing.T) {
	d := open(t)
	claims := map[string]*Claim{}
	for _, id := range []string{"1", "b"} {
		c, err := d.Claim(Listener, id)
		if err != nil {
			t.Fatal(err)
		}
		claims[id] = c
	}
	other, err := d.Claim(Router, "9")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	check := func(want ...string) {
		t.Helper()
		got, err := d.Running(Listener)
		slices.Sort(got)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q run, want %q (%v)", got, want, err)
		}
	}
	check("1", "b")
	if err := claims["1"].Close(); err != nil {
		t.Fatal(err)
	}
	check("b")
	if err := claims["b"].lock.Close(); err != nil { // as if it had been killed: the file stays
		t.Fatal(err)
	}
	check()
}

func TestListShowsTheLivingAndRemovesTheDead(t *testing.T) {
	d := open(t)
	alive, err := d.Claim(Router, "10")
	if err != nil {
		t.Fatal(err)
	}
	second, err := d.Claim(Router, "2")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []*Claim{alive, second} {
		l, err := c.Listen()
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
	}
	// What a killed process leaves: its files, and a lock nobody holds.
	for _, name := range []string{"router.3.sock", "router.3.http.sock", "router.3.lock"} {
		if err := os.WriteFile(d.Join(name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := d.List(Router)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got[0].ID != "2" || got[1].ID != "10" {
		t.Fatalf("listed %+v, want the running 2 and 10", got)
	}
	for _, name := range []string{"router.3.sock", "router.3.http.sock", "router.3.lock"} {
		if _, err := os.Stat(d.Join(name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s of a dead instance is still there (%v)", name, err)
		}
	}
}

func TestWatchReportsComingAndGoing(t *testing.T) {
	d := open(t)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	seen := make(chan int, 16)
	done := make(chan struct{})
	go func() {
		defer close(done)
		d.Watch(ctx, Classifier, discard, func(is []Instance) { seen <- len(is) })
	}()
	expect := func(n int) {
		t.Helper()
		select {
		case got := <-seen:
			if got != n {
				t.Fatalf("watch reports %d instances, want %d", got, n)
			}
		case <-ctx.Done():
			t.Fatalf("watch did not report %d instances", n)
		}
	}
	expect(0)
	c, err := d.Claim(Classifier, "1")
	if err != nil {
		t.Fatal(err)
	}
	l, err := c.Listen()
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	expect(1)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	expect(0)
	cancel()
	<-done
}

func TestDialChecksThePeer(t *testing.T) {
	d := open(t)
	c, err := d.Claim(Router, "1")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	l, err := c.Listen()
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accepted := make(chan error, 1)
	go func() {
		u, err := l.AcceptUnix()
		if err == nil {
			err = CheckPeer(u)
			u.Close()
		}
		accepted <- err
	}()
	u, err := Dial(context.Background(), d.Socket(Router, "1"))
	if err != nil {
		t.Fatal(err)
	}
	u.Close()
	if err := <-accepted; err != nil {
		t.Fatal(err)
	}
	var ne net.Error
	if _, err := Dial(context.Background(), d.Socket(Router, "9")); err == nil || !errors.As(err, &ne) {
		t.Fatalf("dialling nobody: got %v", err)
	}
}

func TestSecretIsSharedAndPrivate(t *testing.T) {
	d := open(t)
	got := make(chan []byte, 8)
	for range cap(got) {
		go func() {
			b, err := d.Secret("template.key", 16)
			if err != nil {
				t.Error(err)
			}
			got <- b
		}()
	}
	first := <-got
	for range cap(got) - 1 {
		if b := <-got; !bytes.Equal(b, first) {
			t.Fatal("two services read different secrets")
		}
	}
	st, err := os.Stat(d.Join("template.key"))
	if err != nil || st.Mode().Perm() != 0o600 || len(first) != 16 {
		t.Fatalf("secret file: %v, %v, %d bytes; want mode 0600 and 16 bytes", st.Mode(), err, len(first))
	}
}

// keep runs Keep for a claim until the test ends.
func keep(t *testing.T, c *Claim) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Keep(ctx, slog.New(slog.NewTextHandler(t.Output(), nil)))
	}()
	t.Cleanup(func() { cancel(); <-done })
}

// Whatever is removed under a running instance comes back, its lock before all else:
// without it others take the instance for dead.
func TestRemovedNamesComeBack(t *testing.T) {
	for name, remove := range map[string]func(d *Dir) error{
		"socket":        func(d *Dir) error { return os.Remove(d.Socket(Router, "1")) },
		"lock":          func(d *Dir) error { return os.Remove(d.lock(Router, "1")) },
		"everything":    func(d *Dir) error { return os.RemoveAll(d.path) },
		"HTTP socket":   func(d *Dir) error { return os.Remove(d.HTTPSocket(Router, "1")) },
		"socket of all": func(d *Dir) error { return os.Remove(d.Join("bus.sock")) },
		"lock, seen by others": func(d *Dir) error {
			if err := os.Remove(d.lock(Router, "1")); err != nil {
				return err
			}
			_, err := d.List(Router) // which buries it
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := open(t)
			c, err := d.Claim(Router, "1")
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			var paths []string
			for _, listen := range []func() (*Socket, error){c.Listen, c.ListenHTTP, func() (*Socket, error) { return c.ListenAs("bus.sock") }} {
				s, err := listen()
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				paths = append(paths, s.path)
				go func() {
					for {
						conn, err := s.AcceptUnix()
						if err != nil {
							return
						}
						_, _ = conn.Write([]byte("hi")) // whoever dialled may be gone
						conn.Close()
					}
				}()
			}
			var seen atomic.Int64 // how many instances a watcher sees
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			watched := make(chan struct{})
			go func() {
				defer close(watched)
				d.Watch(ctx, Router, discard, func(now []Instance) { seen.Store(int64(len(now))) })
			}()
			deadline := time.Now().Add(30 * time.Second)
			for seen.Load() != 1 {
				if time.Now().After(deadline) {
					t.Fatal("the instance is not seen")
				}
				time.Sleep(time.Millisecond) // between two looks
			}
			keep(t, c)
			if err := remove(d); err != nil {
				t.Fatal(err)
			}
			for _, p := range paths {
				for {
					conn, err := net.Dial("unix", p)
					if err == nil {
						b := make([]byte, 2)
						_, err = io.ReadFull(conn, b)
						conn.Close()
					}
					if err == nil {
						break
					}
					if time.Now().After(deadline) {
						t.Fatal(err)
					}
					time.Sleep(time.Millisecond) // between two attempts
				}
			}
			held := func() bool {
				c.mu.Lock()
				defer c.mu.Unlock()
				return sameFile(c.lock, d.lock(Router, "1"))
			}
			for !held() || seen.Load() != 1 {
				if time.Now().After(deadline) {
					t.Fatal("the instance is not seen any more")
				}
				time.Sleep(time.Millisecond)
			}
			if _, err := d.Claim(Router, "1"); !errors.Is(err, ErrTaken) {
				t.Errorf("somebody else can have its names: %v", err)
			}
			cancel()
			<-watched
		})
	}
}

// A name that another instance has taken over stays its own.
func TestTakenNameIsNotTakenBack(t *testing.T) {
	d := open(t)
	var socks []*Socket
	for _, id := range []string{"1", "2"} {
		c, err := d.Claim(Lagpoller, id)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		s, err := c.ListenAs("bus.sock")
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		socks = append(socks, s)
		if again, err := c.restore(); again || err != nil {
			t.Errorf("restored %v, %v", again, err)
		}
	}
	if again, err := socks[0].restore(); again || err != nil {
		t.Errorf("the first owner takes the name back: %v, %v", again, err)
	}
}

// A process without free descriptors accepts a connection when it has some again.
func TestAcceptWaitsForRoom(t *testing.T) {
	c, err := open(t).Claim(Router, "1")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	l, err := c.Listen()
	if err != nil {
		t.Fatal(err)
	}
	peer, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(peer)
	if err := unix.Connect(peer, &unix.SockaddrUnix{Name: l.Addr().String()}); err != nil {
		t.Fatal(err)
	}
	restore := handofftest.Exhaust(t, 0)
	time.AfterFunc(2*acceptAgain, restore) // it has been tried in vain by then
	u, err := l.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	u.Close()
}
