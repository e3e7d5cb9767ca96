package verdict

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/libs/rundir"
	"github.com/pgpilot/pgpilot/libs/sqltoken"
)

func TestAnswersComeInAnyOrder(t *testing.T) {
	d := runDir(t)
	s := startClassifier(t, d, "1")
	c := newClient(t, d, nil)
	connected(t, c, 1)
	a, b := put(c, "SELECT 1"), put(c, "DELETE FROM t")
	qa, qb := s.next(), s.next()
	if qa.Text != "SELECT 1" || qa.Database != "app" || qa.Key != (sqltoken.Key{8}) || qb.Text != "DELETE FROM t" {
		t.Fatalf("asked %+v and %+v", qa.Request, qb.Request)
	}
	qb.answer(t, Verdict{Fingerprint: 2})
	if d := wait(t, b); d.err != nil || d.v.Fingerprint != 2 {
		t.Fatalf("got %+v", d)
	}
	qa.answer(t, Verdict{Kind: Read, Fingerprint: 1})
	if d := wait(t, a); d.err != nil || d.v.Kind != Read {
		t.Fatalf("got %+v", d)
	}
}

func TestWithoutAClassifierTheAnswerComesAtOnce(t *testing.T) {
	c := newClient(t, runDir(t), nil) // its timeout is an hour
	wantError(t, put(c, "SELECT 1"), ErrNone)
}

func TestTooLongTextIsNotSent(t *testing.T) {
	d := runDir(t)
	s := startClassifier(t, d, "1")
	c := newClient(t, d, func(o *Options) { o.MaxText = 8 })
	connected(t, c, 1)
	wantError(t, put(c, "SELECT 10"), ErrTooLong)
	put(c, "SELECT 1")
	c.SetMaxText(9)
	put(c, "SELECT 10")
	for _, want := range []string{"SELECT 1", "SELECT 10"} {
		if q := s.next(); q.Text != want {
			t.Fatalf("asked %q, want %q", q.Text, want)
		}
	}
}

func TestTimeoutAndLateAnswer(t *testing.T) {
	d := runDir(t)
	s := startClassifier(t, d, "1")
	type late struct {
		database string
		key      sqltoken.Key
		v        Verdict
	}
	lates := make(chan late, 1)
	c := newClient(t, d, func(o *Options) {
		o.Late = func(database string, key sqltoken.Key, v Verdict) { lates <- late{database, key, v} }
	})
	connected(t, c, 1)
	c.SetTimeout(10 * time.Millisecond)
	got := put(c, "SELECT 1")
	wantError(t, got, ErrTimeout)
	s.next().answer(t, Verdict{Kind: Read})
	select {
	case l := <-lates:
		if l.database != "app" || l.key != (sqltoken.Key{8}) || l.v.Kind != Read {
			t.Fatalf("late: %+v", l)
		}
	case <-time.After(patience):
		t.Fatal("the late answer was lost")
	}
	if len(got) != 0 {
		t.Fatal("delivered twice")
	}
}

// A shorter timeout set later must not wait for the longer ones before it.
func TestShorterTimeoutIsNotHeldUp(t *testing.T) {
	d := runDir(t)
	s := startClassifier(t, d, "1")
	c := newClient(t, d, nil)
	connected(t, c, 1)
	slow := put(c, "SELECT 1")
	c.SetTimeout(10 * time.Millisecond)
	wantError(t, put(c, "SELECT 22"), ErrTimeout)
	s.next().answer(t, Verdict{Kind: Read})
	if d := wait(t, slow); d.err != nil {
		t.Fatal(d.err)
	}
}

func TestQuestionsAreSpreadByWhatWaits(t *testing.T) {
	d := runDir(t)
	one, two := startClassifier(t, d, "1"), startClassifier(t, d, "2")
	c := newClient(t, d, nil)
	connected(t, c, 2)
	for range 10 {
		put(c, "SELECT 1")
	}
	for range 5 {
		one.next()
		two.next()
	}
}

// One that fails at once always has the fewest waiting. It is left alone for a while, and asked
// again where there is no other.
func TestAClassifierWithoutVerdictsIsLeftAlone(t *testing.T) {
	d := runDir(t)
	vain, good := startClassifier(t, d, "1"), startClassifier(t, d, "2")
	c := newClient(t, d, nil)
	c.mu.Lock()
	c.shunned = long
	c.mu.Unlock()
	connected(t, c, 2)
	fail := func(q *question, got chan delivery) {
		if _, err := q.conn.Write(AppendNoVerdict(nil, q.id)); err != nil {
			t.Fatal(err)
		}
		wantError(t, got, ErrNoVerdict)
	}
	first := []chan delivery{put(c, "SELECT 1"), put(c, "SELECT 1")} // one for each of them, it is not known which
	slow, failed := good.next(), vain.next()
	if _, err := failed.conn.Write(AppendNoVerdict(nil, failed.id)); err != nil {
		t.Fatal(err)
	}
	until(t, "the failure is delivered", func() bool { return len(first[0])+len(first[1]) == 1 })
	for range 10 { // although one more waits there
		got := put(c, "SELECT 22")
		good.next().answer(t, Verdict{Kind: Read})
		if d := wait(t, got); d.err != nil {
			t.Fatal(d.err)
		}
	}
	slow.answer(t, Verdict{Kind: Read})
	good.kill()
	connected(t, c, 1)
	got := put(c, "SELECT 22")
	fail(vain.next(), got)
	got = put(c, "SELECT 22")
	vain.next().answer(t, Verdict{Kind: Read})
	if d := wait(t, got); d.err != nil {
		t.Fatal(d.err)
	}
}

func TestLostQuestionsGoToAnother(t *testing.T) {
	d := runDir(t)
	one := startClassifier(t, d, "1")
	c := newClient(t, d, nil)
	connected(t, c, 1)
	first := put(c, "SELECT 1")
	one.next()
	two := startClassifier(t, d, "2")
	connected(t, c, 2)
	one.kill()
	q := two.next()
	q.answer(t, Verdict{Kind: Read})
	if d := wait(t, first); d.err != nil || d.v.Kind != Read {
		t.Fatalf("got %+v", d)
	}

	// Once each: a text that kills classifiers must not kill them all.
	second := put(c, "SELECT crash")
	two.next()
	three := startClassifier(t, d, "3")
	connected(t, c, 2)
	two.kill()
	three.next()
	four := startClassifier(t, d, "4")
	connected(t, c, 2)
	three.kill()
	wantError(t, second, ErrLost)
	if len(four.asked) != 0 {
		t.Fatal("asked a third time")
	}
}

func TestLostQuestionsFailWithoutAnother(t *testing.T) {
	d := runDir(t)
	s := startClassifier(t, d, "1")
	c := newClient(t, d, nil)
	connected(t, c, 1)
	got := put(c, "SELECT 1")
	s.next()
	s.kill()
	wantError(t, got, ErrLost)
	connected(t, c, 0)
}

func TestARestartedClassifierIsFound(t *testing.T) {
	d := runDir(t)
	c := newClient(t, d, nil)
	for range 3 {
		s := startClassifier(t, d, "1")
		connected(t, c, 1)
		got := put(c, "SELECT 1")
		s.next().answer(t, Verdict{Kind: Read})
		if d := wait(t, got); d.err != nil {
			t.Fatal(d.err)
		}
		s.kill()
		connected(t, c, 0)
	}
}

// A classifier that is started while nobody has a question looks into the databases whose
// verdicts are in use all the same.
func TestFollowedDatabasesAreAskedAboutWheneverAClassifierComes(t *testing.T) {
	d := runDir(t)
	late := make(chan Verdict, 10)
	c := newClient(t, d, func(o *Options) {
		o.Late = func(database string, _ sqltoken.Key, v Verdict) {
			if database == "app" {
				late <- v
			}
		}
	})
	first := startClassifier(t, d, "1")
	connected(t, c, 1)
	c.Follow("app")
	c.Follow("app")
	wantFollowed := func(of *classifier, generation uint64) {
		t.Helper()
		q := of.next()
		if q.Database != "app" || q.Text != "" {
			t.Fatalf("asked %+v", q.Request)
		}
		q.answer(t, Verdict{Generation: generation})
		select {
		case v := <-late:
			if v.Generation != generation {
				t.Errorf("told %+v", v)
			}
		case <-time.After(patience):
			t.Fatal("the answer is told to nobody")
		}
	}
	wantFollowed(first, 1)
	second := startClassifier(t, d, "2")
	wantFollowed(second, 2)
	first.hangUp()
	wantFollowed(first, 3)
	second.kill()
	connected(t, c, 1)
	got := put(c, "SELECT 1")
	q := first.next()
	if q.Text != "SELECT 1" {
		t.Fatalf("asked %+v once more", q.Request)
	}
	q.answer(t, Verdict{})
	wait(t, got)
}

// The same instance, still listed, whose connection broke.
func TestABrokenConnectionIsMadeAgain(t *testing.T) {
	d := runDir(t)
	s := startClassifier(t, d, "1")
	c := newClient(t, d, nil)
	connected(t, c, 1)
	got := put(c, "SELECT 1")
	s.next()
	s.hangUp()
	wantError(t, got, ErrLost) // so the old connection is out of use
	connected(t, c, 1)
	got = put(c, "SELECT 22")
	s.next().answer(t, Verdict{Kind: Read})
	if d := wait(t, got); d.err != nil {
		t.Fatal(d.err)
	}
}

// A classifier that is shutting down answers what it was asked, and is asked no more.
func TestARetiredClassifierFinishes(t *testing.T) {
	d := runDir(t)
	s := startClassifier(t, d, "1")
	c := newClient(t, d, nil)
	connected(t, c, 1)
	got := put(c, "SELECT 1")
	q := s.next()
	s.l.Close()
	if err := s.claim.Close(); err != nil {
		t.Fatal(err)
	}
	connected(t, c, 0)
	wantError(t, put(c, "SELECT 22"), ErrNone)
	q.answer(t, Verdict{Kind: Read})
	if d := wait(t, got); d.err != nil || d.v.Kind != Read {
		t.Fatalf("got %+v", d)
	}
}

func TestOutstandingQuestionsAreBounded(t *testing.T) {
	d := runDir(t)
	s := startClassifier(t, d, "1")
	c := newClient(t, d, func(o *Options) { o.MaxOutstanding = 3 })
	connected(t, c, 1)
	c.SetTimeout(10 * time.Millisecond)
	for range 3 {
		wantError(t, put(c, "SELECT 1"), ErrTimeout)
	}
	// Timed out, but the classifier still has them all.
	wantError(t, put(c, "SELECT 1"), ErrBusy)
	c.SetTimeout(long)
	for range 3 {
		s.next().answer(t, Verdict{})
	}
	until(t, "there is room again", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.state.links["1"].asks) == 0
	})
	got := put(c, "SELECT 1")
	s.next().answer(t, Verdict{Kind: Read})
	if d := wait(t, got); d.err != nil {
		t.Fatal(d.err)
	}
}

// A classifier that does not read must not make the router's memory grow.
func TestUnreadBytesAreBounded(t *testing.T) {
	d := runDir(t)
	claim, err := d.Claim(rundir.Classifier, "1")
	if err != nil {
		t.Fatal(err)
	}
	defer claim.Close()
	l, err := claim.Listen()
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() // the kernel connects on behalf of who never accepts
	c := newClient(t, d, nil)
	connected(t, c, 1)
	text := string(make([]byte, 1<<20))
	var busy atomic.Int64
	for range 2*maxQueued>>20 + 8 {
		c.Ask(Request{Text: text}, func(_ Verdict, err error) {
			if errors.Is(err, ErrBusy) {
				busy.Add(1)
			}
		})
	}
	until(t, "the classifier counts as busy", func() bool { return busy.Load() > 0 })
}

func TestCloseAnswersEverything(t *testing.T) {
	d := runDir(t)
	s := startClassifier(t, d, "1")
	c := newClient(t, d, nil)
	connected(t, c, 1)
	var gots []chan delivery
	for range 10 {
		gots = append(gots, put(c, "SELECT 1"))
	}
	s.next()
	c.Close()
	for _, got := range append(gots, put(c, "SELECT 1")) {
		wantError(t, got, ErrClosed)
	}
}

func TestAWrongAnswerHarmsNobody(t *testing.T) {
	d := runDir(t)
	s := startClassifier(t, d, "1")
	c := newClient(t, d, nil)
	connected(t, c, 1)
	got := put(c, "SELECT 1")
	q := s.next()
	(&question{id: q.id + 100, conn: q.conn}).answer(t, Verdict{Kind: Read})
	q.answer(t, Verdict{Fingerprint: 1})
	q.answer(t, Verdict{Fingerprint: 2})
	if d := wait(t, got); d.err != nil || d.v.Fingerprint != 1 {
		t.Fatalf("got %+v", d)
	}
	if _, err := q.conn.Write([]byte{0xff, 0xff, 0xff, 0xff}); err != nil {
		t.Fatal(err)
	}
	until(t, "the client connects again", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.conns) == 2
	})
	connected(t, c, 1)
	got = put(c, "SELECT 22")
	s.next().answer(t, Verdict{Kind: Read})
	if d := wait(t, got); d.err != nil {
		t.Fatalf("got %+v", d)
	}
}

// Everything at once, for the race detector: each question is answered exactly
// once, whatever happens to the classifiers.
func TestEveryQuestionIsAnsweredOnce(t *testing.T) {
	d := runDir(t)
	c := newClient(t, d, func(o *Options) { o.Timeout = 200 * time.Millisecond })
	var asking sync.WaitGroup
	var answered atomic.Int64
	const askers, questions = 8, 300
	for range askers {
		asking.Go(func() {
			for range questions {
				got := make(chan struct{})
				c.Ask(Request{Text: "SELECT 1"}, func(v Verdict, err error) {
					answered.Add(1)
					if (err == nil) != (v.Kind == Read) {
						t.Errorf("delivered %+v, %v", v, err)
					}
					close(got) // panics the second time
				})
				<-got
			}
		})
	}
	done := make(chan struct{})
	go func() { asking.Wait(); close(done) }()
	for i := 0; ; i++ {
		s := startClassifier(t, d, "1")
		for n := range 100 + i%50 {
			select {
			case q := <-s.asked:
				if n%7 != 0 {
					_, _ = q.conn.Write(AppendResponse(nil, q.id, Verdict{Kind: Read}))
				}
				continue
			case <-done:
			}
			break
		}
		s.kill()
		select {
		case <-done:
			if n := answered.Load(); n != askers*questions {
				t.Fatalf("%d answers to %d questions", n, askers*questions)
			}
			return
		default:
		}
	}
}
