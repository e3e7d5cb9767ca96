package news

import (
	"context"
	"log/slog"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgpilot/pgpilot/libs/bus"
	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/rundir"
	"github.com/pgpilot/pgpilot/libs/service"
	"github.com/pgpilot/pgpilot/libs/sqltoken"
	"github.com/pgpilot/pgpilot/libs/verdict"
)

// patience is how long a test waits for what must come.
const patience = 30 * time.Second

// reader keeps what it is told.
type reader struct {
	mu       sync.Mutex
	verdicts map[sqltoken.Key]verdict.Verdict
	flushes  map[string]uint64
}

func newReader() *reader {
	return &reader{verdicts: make(map[sqltoken.Key]verdict.Verdict), flushes: make(map[string]uint64)}
}

func (*reader) Lag(bus.Lag)           {}
func (*reader) Topology(bus.Topology) {}

func (r *reader) Verdict(_ string, key sqltoken.Key, v verdict.Verdict) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.verdicts[key] = v
}

func (r *reader) FlushVerdicts(database string, generation uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.flushes[database] = generation
}

func (r *reader) wait(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		r.mu.Lock()
		ok := cond()
		r.mu.Unlock()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// startBus is a NATS server at the run directory's socket; stop ends it.
func startBus(t *testing.T, d *rundir.Dir) (stop func()) {
	t.Helper()
	key, err := bus.Credential(d, "")
	if err != nil {
		t.Fatal(err)
	}
	n, err := server.NewServer(&server.Options{DontListen: true, NoSigs: true, NoLog: true,
		Nkeys: []*server.NkeyUser{{Nkey: key.Public}}})
	if err != nil {
		t.Fatal(err)
	}
	go n.Start()
	l, err := net.Listen("unix", d.Join(bus.SocketName))
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			inside, err := n.InProcessConn()
			if err != nil {
				c.Close()
				continue
			}
			for _, ends := range [][2]net.Conn{{c, inside}, {inside, c}} {
				wg.Go(func() {
					b := make([]byte, 32<<10)
					for {
						k, err := ends[1].Read(b)
						if err == nil {
							_, err = ends[0].Write(b[:k])
						}
						if err != nil {
							ends[0].Close()
							ends[1].Close()
							return
						}
					}
				})
			}
		}
	})
	if !n.ReadyForConnections(patience) {
		t.Fatal("the bus does not start")
	}
	var once sync.Once
	stop = func() {
		once.Do(func() {
			l.Close()
			n.Shutdown()
			n.WaitForShutdown()
			wg.Wait()
		})
	}
	t.Cleanup(stop)
	return stop
}

// classifier answers requests for snapshots.
func classifier(t *testing.T, d *rundir.Dir, parts ...bus.VerdictSnapshot) {
	t.Helper()
	nc, err := bus.Connect(t.Context(), d, bus.Options{Name: "classifier", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	if _, err := nc.Subscribe(bus.SubjectVerdictSnapshot, func(m *nats.Msg) {
		for _, p := range parts {
			data, err := bus.Encode(p)
			if err != nil {
				t.Error(err)
			}
			_ = m.Respond(data)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if err := nc.FlushTimeout(patience); err != nil {
		t.Fatal(err)
	}
}

func part(flushes []bus.Flush, verdicts ...bus.Verdict) bus.VerdictSnapshot {
	if verdicts == nil {
		verdicts = []bus.Verdict{}
	}
	return bus.VerdictSnapshot{V: bus.Version, Publisher: "1", Build: "b", Flushes: flushes, Verdicts: verdicts}
}

// folder is a run directory.
func folder(t *testing.T) *rundir.Dir {
	t.Helper()
	p, err := os.MkdirTemp("", "nw")
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

// open gives the connection of a router in d, with a log if that is not nil.
func open(t *testing.T, d *rundir.Dir, log slog.Handler) *Paper {
	t.Helper()
	if log == nil {
		log = slog.NewTextHandler(t.Output(), nil)
	}
	claim, err := d.Claim(rundir.Router, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { claim.Close() })
	paper, err := Open(t.Context(), &service.Env{Config: config.Default(), Dir: d, Claim: claim, Metrics: prometheus.NewRegistry(), Log: slog.New(log)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(paper.Close)
	return paper
}

// present makes a classifier of the run directory's list.
func present(t *testing.T, d *rundir.Dir, id string) {
	t.Helper()
	claim, err := d.Claim(rundir.Classifier, id)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { claim.Close() })
	if _, err := claim.Listen(); err != nil {
		t.Fatal(err)
	}
}

// A router that starts is told what is known, and again after the bus was away:
// a flush may have been missed.
func TestARouterIsWarmedUpAtTheStartAndWhenTheBusIsBack(t *testing.T) {
	d := folder(t)
	paper := open(t, d, nil)
	r := newReader()
	if err := paper.Deliver(r); err != nil { // before there is a bus
		t.Fatal(err)
	}
	known := verdict.Verdict{Kind: verdict.Read, Generation: 7}
	broken := known.Message("a", sqltoken.Key{3})
	broken.Kind = "both"

	stop := startBus(t, d)
	classifier(t, d, part([]bus.Flush{{V: bus.Version, Database: "a", Generation: 7}}),
		part(nil, known.Message("a", sqltoken.Key{1}), broken), part(nil, known.Message("a", sqltoken.Key{2})))
	// Whoever started at the same time may have asked before the classifier was there.
	again := func() {
		stop()
		stop = startBus(t, d)
	}
	again()
	r.wait(t, "all that is known has come", func() bool {
		return r.flushes["a"] == 7 && r.verdicts[sqltoken.Key{1}] == known && r.verdicts[sqltoken.Key{2}] == known
	})
	r.mu.Lock()
	if _, ok := r.verdicts[sqltoken.Key{3}]; ok {
		t.Error("half a verdict was taken for one")
	}
	r.flushes, r.verdicts = map[string]uint64{}, map[sqltoken.Key]verdict.Verdict{}
	r.mu.Unlock()
	again()
	r.wait(t, "it is told again", func() bool { return r.flushes["a"] == 7 && len(r.verdicts) == 2 })
}

// lines counts a log's lines by their message.
type lines struct {
	slog.Handler
	mu    sync.Mutex
	count map[string]int
}

func (l *lines) Handle(ctx context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count[r.Message]++
	return l.Handler.Handle(ctx, r)
}

// A router that starts has what each classifier knows before it goes on; whether one is
// slow, or there is none, is in its log.
func TestAStartingRouterWaitsForWhatIsKnown(t *testing.T) {
	known := verdict.Verdict{Kind: verdict.Read, Generation: 7}
	of := func(publisher string, parts int, keys ...byte) (out []bus.VerdictSnapshot) {
		for range parts - 1 {
			p := part(nil)
			p.Publisher, p.Parts = publisher, parts
			out = append(out, p)
		}
		last := part(nil)
		last.Publisher, last.Parts = publisher, parts
		for _, k := range keys {
			last.Verdicts = append(last.Verdicts, known.Message("a", sqltoken.Key{k}))
		}
		return append(out, last)
	}
	for name, c := range map[string]struct {
		running []string // of the run directory's list
		answers map[string][]bus.VerdictSnapshot
		bus     bool
		most    time.Duration
		keys    int
		says    string
	}{
		"one classifier": {[]string{"1"}, map[string][]bus.VerdictSnapshot{"1": of("1", 3, 1, 2)}, true, patience, 2,
			"verdicts taken over"},
		"two": {[]string{"1", "2"}, map[string][]bus.VerdictSnapshot{"1": of("1", 1, 1), "2": of("2", 5, 2, 3)}, true, patience, 3,
			"verdicts taken over"},
		"one that does not count its parts": {[]string{"1"}, map[string][]bus.VerdictSnapshot{"1": {part(nil), part(nil, known.Message("a", sqltoken.Key{1}))}},
			true, patience, 1, "verdicts taken over"},
		"one that is not on the bus": {[]string{"1"}, nil, true, 10 * time.Millisecond, 0,
			"no classifier has sent what it knows: statements are asked for one by one"},
		"no bus": {[]string{"1"}, nil, false, 10 * time.Millisecond, 0,
			"no classifier has sent what it knows: statements are asked for one by one"},
		// Its own subscription covers the request's subject, so that the server does not
		// say that there is nobody.
		"no classifier": {nil, nil, true, patience, 0,
			"no classifier is running: until one is, statements that are not known run on the primary"},
		"nothing at all": {nil, nil, false, patience, 0,
			"no classifier is running: until one is, statements that are not known run on the primary"},
	} {
		t.Run(name, func(t *testing.T) {
			d := folder(t)
			if c.bus {
				startBus(t, d)
			}
			for _, id := range c.running {
				present(t, d, id)
			}
			for _, parts := range c.answers {
				classifier(t, d, parts...)
			}
			log := &lines{Handler: slog.NewTextHandler(t.Output(), nil), count: make(map[string]int)}
			paper, r := open(t, d, log), newReader()
			if err := paper.Deliver(r); err != nil {
				t.Fatal(err)
			}
			paper.AwaitVerdicts(t.Context(), c.most)
			r.mu.Lock()
			defer r.mu.Unlock()
			if len(r.verdicts) != c.keys {
				t.Errorf("%d verdicts, want %d", len(r.verdicts), c.keys)
			}
			log.mu.Lock()
			defer log.mu.Unlock()
			if log.count[c.says] != 1 {
				t.Errorf("the log has %v, want %q once", log.count, c.says)
			}
		})
	}
}
