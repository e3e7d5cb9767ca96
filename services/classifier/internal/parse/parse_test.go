package parse

import (
	"errors"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"golang.org/x/sys/unix"

	"github.com/pgpilot/pgpilot/services/classifier/internal/parse/poison"
)

// The test binary is its own worker, one that poison harms.
func TestMain(m *testing.M) {
	if IsWorker(os.Args) {
		os.Exit(Serve(os.Args, func(text string, normalize bool) Raw {
			if r, ok := answerCanned(text); ok {
				return r
			}
			poison.Take(text)
			return C(text, normalize)
		}))
	}
	os.Exit(m.Run())
}

// limits leave an innocent text all the time there is.
func limits() Limits {
	l := DefaultLimits()
	l.CPU, l.Wall, l.Queue = 20*time.Second, 60*time.Second, 60*time.Second
	return l
}

func open(t testing.TB, workers int, l Limits) *Pool {
	t.Helper()
	m, err := NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(Options{Workers: workers, Limits: l, Metrics: m, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func (p *Pool) ends(cause string) float64 {
	return testutil.ToFloat64(p.opts.Metrics.ends.WithLabelValues(cause))
}

func wantParsed(t *testing.T, p *Pool, text string) {
	t.Helper()
	used := 0
	if err := p.Parse(text, false, func(got Parsed) {
		if used++; len(got.Tree.GetStmts()) == 0 || got.Fingerprint == 0 {
			t.Errorf("%.60s: a tree of %d statements, fingerprint %x", text, len(got.Tree.GetStmts()), got.Fingerprint)
		}
	}); err != nil || used != 1 {
		t.Fatalf("%.60s: %v, used %d times", text, err, used)
	}
}

func wantPoison(t *testing.T, p *Pool, text, cause string) {
	t.Helper()
	err := p.Parse(text, false, func(Parsed) { t.Error("a poisoned text has a tree") })
	var is *Poison
	if !errors.As(err, &is) || is.Cause != cause {
		t.Fatalf("%.60s: %#v, want poison by %s", text, err, cause)
	}
}

func TestTheTreeCrosses(t *testing.T) {
	p := open(t, 2, limits())
	if err := p.Parse("SELECT a, 1 FROM t; DELETE FROM u WHERE b = 'x'", true, func(got Parsed) {
		if n := len(got.Tree.GetStmts()); n != 2 {
			t.Errorf("%d statements", n)
		}
		if got.Normalized != "SELECT a, $1 FROM t; DELETE FROM u WHERE b = $2" {
			t.Errorf("normalized: %s", got.Normalized)
		}
	}); err != nil {
		t.Fatal(err)
	}
	var refused *Refused
	if err := p.Parse("SELEC 1", false, func(Parsed) {}); !errors.As(err, &refused) || !strings.Contains(refused.Message, "SELEC") {
		t.Fatalf("got %v", err)
	}
	wantParsed(t, p, "SELECT '"+strings.Repeat("long ", 200_000)+"'")
	if err := p.Parse("", false, func(got Parsed) {
		if len(got.Tree.GetStmts()) != 0 {
			t.Error("an empty text has statements")
		}
	}); err != nil {
		t.Fatal(err)
	}
}

func TestPoisonCostsOneWorker(t *testing.T) {
	l := limits()
	l.CPU, l.Memory = time.Second, 64<<20
	p := open(t, 2, l)
	for _, cause := range []string{poison.Crash, poison.Hang, poison.Memory} {
		wantPoison(t, p, "SELECT 1"+poison.Name(cause), cause)
		for range 10 {
			wantParsed(t, p, "SELECT 1")
		}
		if n := p.ends(cause); n != 1 {
			t.Errorf("%v workers ended by %s", n, cause)
		}
	}
}

// A process that waits instead of computing is caught by the clock on the wall. Parsers do
// not wait: somebody has stopped it, or the machine is too busy, and the text is not to blame.
func TestASleeperIsReplacedAndItsTextIsNotToBlame(t *testing.T) {
	l := limits()
	l.Wall = 500 * time.Millisecond
	p := open(t, 2, l)
	if err := p.Parse("SELECT 1"+poison.Name(poison.Sleep), false, func(Parsed) {}); !errors.Is(err, ErrLost) {
		t.Fatalf("got %v", err)
	}
	for _, w := range []*worker{<-p.idle, <-p.idle} {
		if err := w.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Error(err)
		}
		p.idle <- w
	}
	for range 2 {
		if err := p.Parse("SELECT 1", false, func(Parsed) {}); !errors.Is(err, ErrLost) {
			t.Fatalf("of a process that is stopped: %v", err)
		}
	}
	for range 4 {
		wantParsed(t, p, "SELECT 1")
	}
	if n := p.ends("lost"); n != 3 {
		t.Errorf("%v workers lost", n)
	}
}

// A classifier that was stopped for minutes finds its looks at the clock long overdue, and
// what its processes have answered meanwhile.
func TestTimeInWhichTheClassifierWasStoppedDoesNotCount(t *testing.T) {
	p := open(t, 2, limits())
	w := <-p.idle
	defer func() { p.idle <- w }()
	if _, err := w.in.Write(appendRequest(nil, "SELECT 1", false)); err != nil {
		t.Fatal(err)
	}
	before := time.Now().Add(-2 * w.limits.Wall)
	used, _ := w.cpu()
	c := watch{w: w, began: before, next: before, cpu: used, look: tedious}
	if err := w.out.SetReadDeadline(before); err != nil {
		t.Fatal(err)
	}
	w.frames.r = &c
	if a, err := w.frames.answer(); err != nil || a.outcome != outcomeParsed {
		t.Fatalf("%+v, %v", a, err)
	}
}

// A process that has computed for some of its time, and got no more of a busy machine, has a text
// that is to blame. One that has hardly computed has not.
func TestWhoIsToBlameAtTheEndOfTheWait(t *testing.T) {
	p := open(t, 2, limits())
	w := <-p.idle
	defer func() { p.idle <- w }()
	for used, want := range map[time.Duration]error{w.limits.CPU / 5: errLate, 0: errIdle} {
		now, known := w.cpu()
		if !known {
			t.Fatal("the clock of another process cannot be read")
		}
		c := watch{w: w, began: time.Now().Add(-w.limits.Wall), cpu: now - used, look: tedious}
		c.wait()
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, want) {
			t.Errorf("with %v of %v: %v, want %v", used, w.limits.CPU, err, want)
		}
	}
}

// The limit is the parser's own too: what it cannot allocate is an error, or a crash.
func TestMemoryIsLimited(t *testing.T) {
	l := limits()
	l.Memory = 64 << 20
	p := open(t, 2, l)
	err := p.Parse("SELECT a"+strings.Repeat(",a", 400_000)+" FROM t", false, func(Parsed) {})
	var ended *Poison
	if !errors.As(err, &ended) || ended.Cause == poison.Hang {
		t.Fatalf("got %v, want poison by memory or a crash", err)
	}
	wantParsed(t, p, "SELECT 1")
}

func TestLargeTreesAreNotJudged(t *testing.T) {
	l := limits()
	p := open(t, 2, l)
	if err := p.Parse(strings.Repeat("END;", 200_000), false, func(Parsed) {}); !errors.Is(err, ErrTooLarge) {
		t.Fatalf("got %v", err)
	}
	l.Tree = 1000
	small := open(t, 2, l)
	wantParsed(t, small, "SELECT 1")
	if err := small.Parse(strings.Repeat("END;", 100), false, func(Parsed) {}); !errors.Is(err, ErrTooLarge) {
		t.Fatalf("got %v for a tree above the limit", err)
	}
	if n := p.ends(poison.Memory) + p.ends(poison.Crash) + p.ends(poison.Hang); n != 0 {
		t.Fatalf("%v workers ended", n)
	}
}

func TestLongTextsLeaveOneWorker(t *testing.T) {
	p := open(t, 3, limits())
	long := "SELECT '" + strings.Repeat("x", ShortText) + "'"
	let := make(chan struct{})
	var begun, busy sync.WaitGroup
	for range 2 {
		begun.Add(1)
		busy.Go(func() {
			if err := p.Parse(long, false, func(Parsed) { begun.Done(); <-let }); err != nil {
				t.Error(err)
			}
		})
	}
	begun.Wait()
	third := make(chan error, 1)
	busy.Go(func() { third <- p.Parse(long, false, func(Parsed) {}) })
	wantParsed(t, p, "SELECT 1")
	select {
	case err := <-third:
		t.Errorf("a third long text was let in: %v", err)
	default:
	}
	close(let)
	if err := <-third; err != nil {
		t.Error(err)
	}
	busy.Wait()
}

func TestNoFreeWorkerIsAnError(t *testing.T) {
	l := limits()
	p := open(t, 2, l)
	p.opts.Limits.Queue = time.Millisecond
	one, two := <-p.idle, <-p.idle
	if err := p.Parse("SELECT 1", false, func(Parsed) {}); !errors.Is(err, ErrBusy) {
		t.Fatalf("got %v", err)
	}
	p.idle <- one
	p.idle <- two
}

func TestAWorkerKilledFromOutsideIsNoTextsFault(t *testing.T) {
	p := open(t, 2, limits())
	for range 2 { // both while they are idle
		w := <-p.idle
		_ = w.cmd.Process.Kill()
		<-w.gone
		p.idle <- w
	}
	wantParsed(t, p, "SELECT 1")
	if n := p.ends("lost"); n != 2 {
		t.Errorf("%v workers lost", n)
	}
	// And one in the middle of a text.
	err := p.Parse("SELECT 1"+poison.Name(poison.Killed), false, func(Parsed) {})
	if !errors.Is(err, ErrLost) {
		t.Fatalf("got %v", err)
	}
	wantParsed(t, p, "SELECT 1")
}

func TestWornWorkersAreReplaced(t *testing.T) {
	l := limits()
	l.Statements = 10
	p := open(t, 2, l)
	for range 100 {
		wantParsed(t, p, "SELECT 1")
	}
	if n := p.ends("worn"); n < 8 {
		t.Errorf("%v workers replaced after 100 texts, 10 for each", n)
	}
	l.Statements, l.Resident = 1<<30, 1
	p = open(t, 2, l)
	wantParsed(t, p, "SELECT '"+strings.Repeat("x", ShortText)+"'")
	if n := p.ends("worn"); n != 1 {
		t.Errorf("%v workers replaced for their memory", n)
	}
}

// A text that keeps its worker busy yields to everything else on the machine.
func TestATediousTextMakesRoom(t *testing.T) {
	p := open(t, 2, limits())
	ws := []*worker{<-p.idle, <-p.idle}
	for _, w := range ws {
		p.idle <- w
	}
	hung := make(chan error, 1)
	go func() { hung <- p.Parse("SELECT 1"+poison.Name(poison.Hang), false, func(Parsed) {}) }()
	deadline := time.Now().Add(10 * time.Second)
	for !slices.ContainsFunc(ws, humbled) {
		if time.Now().After(deadline) {
			t.Error("no worker has made room")
			break
		}
		time.Sleep(time.Millisecond)
	}
	p.Close()
	if err := <-hung; !errors.Is(err, ErrClosed) {
		t.Errorf("the text under way: %v", err)
	}
}

// humbled reports whether every thread of a worker has the low priority.
func humbled(w *worker) bool {
	threads, err := os.ReadDir("/proc/" + strconv.Itoa(w.cmd.Process.Pid) + "/task")
	if err != nil || len(threads) == 0 {
		return false
	}
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		if err != nil {
			return false
		}
		// The system call gives 20 minus the priority.
		if priority, err := unix.Getpriority(unix.PRIO_PROCESS, id); err != nil || 20-priority != humble {
			return false
		}
	}
	return true
}

// Nobody raises the priority of a worker again: it serves no other text.
func TestAWorkerThatMadeRoomIsReplaced(t *testing.T) {
	p := open(t, 2, limits())
	w := <-p.idle
	w.recede()
	p.idle <- w
	for range 2 {
		wantParsed(t, p, "SELECT 1")
	}
	if n := p.ends("worn"); n != 1 {
		t.Errorf("%v workers replaced, want the one that made room", n)
	}
	<-w.done
}

func TestCloseEndsEveryWorker(t *testing.T) {
	p := open(t, 3, limits())
	var pids []int
	var ws []*worker
	for range 3 {
		ws = append(ws, <-p.idle)
	}
	for _, w := range ws {
		pids = append(pids, w.cmd.Process.Pid)
		p.idle <- w
	}
	hung := make(chan error, 1)
	go func() { hung <- p.Parse("SELECT 1"+poison.Name(poison.Hang), false, func(Parsed) {}) }()
	for len(p.idle) == 3 {
		time.Sleep(time.Millisecond)
	}
	p.Close()
	if err := <-hung; !errors.Is(err, ErrClosed) {
		t.Errorf("the text under way: %v", err)
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d is still there: %v", pid, err)
		}
	}
	if err := p.Parse("SELECT 1", false, func(Parsed) {}); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestManyAtOnce(t *testing.T) {
	p := open(t, 2, limits())
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 50 {
				name := "c" + strconv.Itoa(g) + "_" + strconv.Itoa(i)
				if err := p.Parse("SELECT "+name, false, func(got Parsed) {
					if !strings.Contains(got.Tree.String(), name) {
						t.Errorf("another text's tree for %s", name)
					}
				}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}
