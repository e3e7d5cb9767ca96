package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// worker is one client: session after session, of a driver of its own. It knows what
// its row holds and what it has set.
type worker struct {
	*run
	r    *rand.Rand
	key  int
	kind int
	d    driver
	// values are those that the row may hold: several while it is not known whether a
	// write has been done.
	may []int64
	// zone, client and path are what is set; inTransaction that one is open.
	zone, client, path string
	home               string // the zone that sessions begin with
	inTransaction      bool
	// excused are errors that this act has asked for.
	excused map[string]bool
}

func newWorker(r *run, i int) *worker {
	key := i
	if r.mode != "transaction" {
		key += 500
	}
	return &worker{run: r, r: rand.New(rand.NewPCG(*seed, uint64(key+10))), key: key, kind: i, may: []int64{0}}
}

// errWrong is an answer that is not what it has to be.
var errWrong = errors.New("wrong answer")

// work runs until the soak ends.
func (w *worker) work() {
	for w.pause(0) {
		if err := w.session(); err != nil {
			if !w.allowed(err) {
				w.Errorf("client %d (seed %d): %v", w.key, *seed, err)
				return
			}
			w.note(w.problems, sqlstate(err))
		}
	}
}

// session connects, does some acts, and ends. Whatever error it gives, the session
// is over.
func (w *worker) session() (err error) {
	w.excused = nil
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if w.d, err = w.connect(ctx); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer func() { w.d.close() }()
	w.inTransaction = false
	if w.home, err = w.d.ask(ctx, "SELECT reset_val FROM pg_settings WHERE name = 'TimeZone'"); err != nil {
		return fmt.Errorf("its time zone: %w", err)
	}
	w.forget()
	// A connection that vanished may have left a write that is done only now; it does
	// not undo one that came later.
	if err := w.write(ctx); err != nil {
		return fmt.Errorf("first write: %w", err)
	}
	for n := 3 + w.r.IntN(20); n > 0 && w.pause(0); n-- {
		w.excused = nil
		a := w.choose()
		if err := a.do(w, ctx); err != nil {
			err = fmt.Errorf("%s: %w", a.name, err)
			if w.r.IntN(2) == 0 || w.d.forgets() || !w.allowed(err) {
				return err
			}
			w.note(w.problems, sqlstate(err))
			// Whether the session lives on is not said by the error.
			if w.inTransaction {
				if _, err := w.d.ask(ctx, "ROLLBACK"); err != nil {
					return err
				}
				w.inTransaction = false
			}
			if _, err := w.d.ask(ctx, "DISCARD ALL"); err != nil {
				return err
			}
			w.forget()
			if err := w.write(ctx); err != nil {
				return err
			}
		}
		w.note(w.acts, a.name)
		w.excused = nil
		if err := w.check(ctx); err != nil {
			return fmt.Errorf("after %s: %w", a.name, err)
		}
	}
	return nil
}

// allowed reports whether an error is one to be expected.
func (w *worker) allowed(err error) bool {
	code := sqlstate(err)
	return !errors.Is(err, errWrong) && (lost(err) || w.excused[code])
}

func (w *worker) connect(ctx context.Context) (driver, error) {
	switch n := w.kind % (len(pgxModes) + 3); {
	case n < len(pgxModes):
		return openPgx(ctx, w.pilot.DSN, pgxModes[n])
	case n == len(pgxModes):
		return openPq(ctx, w.pilot.DSN)
	}
	conn, err := dial(ctx, w.pilot.DSN)
	return wireDriver{conn}, err
}

// forget says that nothing is set.
func (w *worker) forget() { w.zone, w.client, w.path = w.home, "", "public" }

// write writes the next value. Values only grow, so that one which is done late
// undoes none that came after it.
func (w *worker) write(ctx context.Context) error {
	next := w.values.Add(1)
	before := w.may
	w.may = append(slices.Clone(before), next)
	got, err := w.d.ask(ctx, "UPDATE public.kv SET v = $2 WHERE k = $1 AND v < $2 RETURNING v::text", w.key, next)
	if err != nil {
		return fmt.Errorf("write: %w", err)
	}
	if got != fmt.Sprint(next) {
		return fmt.Errorf("%w: write of %d (it may be %v) gives %q", errWrong, next, before, got)
	}
	w.may = []int64{next}
	return nil
}

// check reads the row and what is set.
func (w *worker) check(ctx context.Context) error {
	const sql = `SELECT v::text || '|' || current_setting('TimeZone') || '|' || coalesce(current_setting('my.client', true), '') || '|' || (SELECT name FROM here) || '|' || inet_server_port()::text FROM public.kv WHERE k = $1`
	got, err := w.d.ask(ctx, sql, w.key)
	if err != nil {
		return fmt.Errorf("check: %w", err)
	}
	at := strings.LastIndexByte(got, '|')
	for _, v := range w.may {
		if at >= 0 && got[:at] == fmt.Sprintf("%d|%s|%s|%s", v, w.zone, w.client, w.path) {
			w.may = []int64{v}
			w.checked.Add(1)
			if got[at+1:] != fmt.Sprint(w.cluster.Primary().Port) {
				w.onRead.Add(1)
			}
			return nil
		}
	}
	return fmt.Errorf("%w: read %q, want %v|%s|%s|%s", errWrong, got, w.may, w.zone, w.client, w.path)
}

// expect runs a statement that has to give a value.
func (w *worker) expect(ctx context.Context, want, sql string, args ...any) error {
	got, err := w.d.ask(ctx, sql, args...)
	if err != nil {
		return fmt.Errorf("%s: %w", sql, err)
	}
	if got != want {
		return fmt.Errorf("%w: %s gives %q, want %q", errWrong, sql, got, want)
	}
	w.checked.Add(1)
	return nil
}

// do runs statements one by one whose answers do not matter.
func (w *worker) do(ctx context.Context, statements ...string) error {
	for _, sql := range statements {
		if _, err := w.d.ask(ctx, sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	return nil
}

// soon is a moment within which most statements are over, some are not.
func (w *worker) soon() time.Duration { return time.Duration(w.r.IntN(20000)) * time.Microsecond }
