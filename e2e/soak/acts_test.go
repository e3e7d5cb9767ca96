package soak

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// act is one thing that sessions do.
type act struct {
	name string
	do   func(*worker, context.Context) error
	// wire says that it needs the connection itself, discards that it ends with DISCARD ALL.
	wire, discards bool
}

func acts() []act {
	return []act{
		{name: "write", do: (*worker).write},
		{name: "read", do: (*worker).check},
		{name: "transaction", do: (*worker).transaction},
		{name: "set", do: (*worker).set},
		{name: "set local", do: (*worker).setLocal},
		{name: "set in savepoint", do: (*worker).setInSavepoint},
		{name: "reset", do: (*worker).reset},
		{name: "prepare", do: (*worker).prepare},
		{name: "execute", do: (*worker).execute},
		{name: "set_config", do: (*worker).setConfig},
		{name: "set_config local", do: (*worker).setConfigLocal},
		{name: "temporary table", do: (*worker).temporary, discards: true},
		{name: "discard", do: (*worker).discard, discards: true},
		{name: "copy", do: (*worker).copies, wire: true},
		{name: "listen", do: (*worker).listen, wire: true},
		{name: "cancel", do: (*worker).cancel, wire: true},
		{name: "vanish", do: (*worker).vanish, wire: true},
		{name: "pipeline", do: (*worker).pipeline, wire: true},
	}
}

// choose chooses one that the driver can do.
func (w *worker) choose() act {
	all := acts()
	for {
		a := all[w.r.IntN(len(all))]
		if (!a.wire || w.d.raw() != nil) && (!a.discards || !w.d.forgets()) {
			return a
		}
	}
}

// begin opens a transaction.
func (w *worker) begin(ctx context.Context) error {
	w.inTransaction = true
	return w.do(ctx, "BEGIN")
}

// end ends it.
func (w *worker) end(ctx context.Context, how string) error {
	err := w.do(ctx, how)
	w.inTransaction = err != nil
	return err
}

func (w *worker) transaction(ctx context.Context) error {
	before := w.may
	if err := w.begin(ctx); err != nil {
		return err
	}
	undone := func(err error) error { w.may = before; return err } // its end undoes it
	if err := w.write(ctx); err != nil {
		return undone(err)
	}
	inside := w.may
	if err := w.do(ctx, "SAVEPOINT a"); err != nil {
		return undone(err)
	}
	if err := w.write(ctx); err != nil {
		return undone(err)
	}
	if w.r.IntN(2) == 0 {
		if err := w.do(ctx, "ROLLBACK TO a"); err != nil {
			return undone(err)
		}
		w.may = inside
	}
	if err := w.check(ctx); err != nil {
		return undone(err)
	}
	if w.r.IntN(3) == 0 {
		w.may = before
		return w.end(ctx, "ROLLBACK")
	}
	committed := w.may
	w.may = append(append([]int64(nil), before...), committed...)
	if err := w.end(ctx, "COMMIT"); err != nil {
		return err
	}
	w.may = committed
	return nil
}

// setting chooses something to set, gives the statement's end, and what notes it.
func (w *worker) setting() (sql string, note func()) {
	switch w.r.IntN(3) {
	case 0:
		zone := fmt.Sprintf("Etc/GMT-%d", 1+w.r.IntN(9))
		return fmt.Sprintf("TIME ZONE '%s'", zone), func() { w.zone = zone }
	case 1:
		client := fmt.Sprintf("client %d", w.key)
		return fmt.Sprintf("my.client = '%s'", client), func() { w.client = client }
	}
	path := []string{"s1", "s2", "public"}[w.r.IntN(3)]
	return "search_path TO " + path, func() { w.path = path }
}

func (w *worker) set(ctx context.Context) error {
	sql, note := w.setting()
	if err := w.do(ctx, "SET "+sql); err != nil {
		return err
	}
	note()
	return nil
}

func (w *worker) setLocal(ctx context.Context) error {
	zone, client, path := w.zone, w.client, w.path
	if err := w.begin(ctx); err != nil {
		return err
	}
	sql, note := w.setting()
	if err := w.do(ctx, "SET LOCAL "+sql); err != nil {
		return err
	}
	note()
	if err := w.check(ctx); err != nil {
		return err
	}
	w.zone, w.client, w.path = zone, client, path
	return w.end(ctx, "COMMIT")
}

func (w *worker) setInSavepoint(ctx context.Context) error {
	zone, client, path := w.zone, w.client, w.path
	if err := w.begin(ctx); err != nil {
		return err
	}
	outer, note := w.setting()
	inner, _ := w.setting()
	if err := w.do(ctx, "SET "+outer, "SAVEPOINT a", "SET "+inner, "ROLLBACK TO a"); err != nil {
		return err
	}
	note()
	if err := w.check(ctx); err != nil {
		return err
	}
	if w.r.IntN(2) == 0 {
		return w.end(ctx, "COMMIT")
	}
	w.zone, w.client, w.path = zone, client, path
	return w.end(ctx, "ROLLBACK")
}

func (w *worker) reset(ctx context.Context) error {
	if err := w.do(ctx, "RESET ALL"); err != nil {
		return err
	}
	w.forget()
	return nil
}

func (w *worker) discard(ctx context.Context) error {
	if err := w.do(ctx, "DISCARD ALL"); err != nil {
		return err
	}
	w.forget()
	return nil
}

func (w *worker) prepare(ctx context.Context) error {
	if err := w.do(ctx, "PREPARE mine AS SELECT name || '!' FROM here"); err != nil {
		return err
	}
	if err := w.expect(ctx, w.path+"!", "EXECUTE mine"); err != nil {
		return err
	}
	if w.r.IntN(2) == 0 {
		if err := w.set(ctx); err != nil {
			return err
		}
		if err := w.expect(ctx, w.path+"!", "EXECUTE mine"); err != nil {
			return err
		}
	}
	if !w.d.forgets() && w.r.IntN(2) == 0 {
		return w.discard(ctx)
	}
	return w.do(ctx, "DEALLOCATE mine")
}

// execute runs what it has prepared, in and out of transactions, on whichever servers.
func (w *worker) execute(ctx context.Context) error {
	if err := w.do(ctx, fmt.Sprintf("PREPARE mine AS SELECT v::text FROM public.kv WHERE k = %d", w.key), "PREPARE other AS SELECT 'other'"); err != nil {
		return err
	}
	for range 1 + w.r.IntN(6) {
		got, err := w.d.ask(ctx, "EXECUTE mine")
		if err != nil {
			return fmt.Errorf("EXECUTE: %w", err)
		}
		if !slices.ContainsFunc(w.may, func(v int64) bool { return got == fmt.Sprint(v) }) {
			return fmt.Errorf("%w: EXECUTE gives %q, want %v", errWrong, got, w.may)
		}
		if err := w.expect(ctx, "other", "EXECUTE other"); err != nil {
			return err
		}
		if w.r.IntN(3) == 0 {
			if err := w.transaction(ctx); err != nil {
				return err
			}
		}
	}
	return w.do(ctx, "DEALLOCATE mine", "DEALLOCATE other")
}

// config sets something with set_config.
func (w *worker) config(ctx context.Context, local string) error {
	value := fmt.Sprintf("client %d.%d", w.key, w.r.IntN(10))
	if err := w.expect(ctx, value, "SELECT set_config('my.client', $1, "+local+")", value); err != nil {
		return err
	}
	w.client = value
	return nil
}

func (w *worker) setConfig(ctx context.Context) error { return w.config(ctx, "false") }

func (w *worker) setConfigLocal(ctx context.Context) error {
	client := w.client
	if err := w.begin(ctx); err != nil {
		return err
	}
	if err := w.config(ctx, "true"); err != nil {
		return err
	}
	if err := w.check(ctx); err != nil {
		return err
	}
	w.client = client
	return w.end(ctx, "COMMIT")
}

func (w *worker) temporary(ctx context.Context) error {
	if err := w.do(ctx, "CREATE TEMP TABLE scratch (n int)", "INSERT INTO scratch VALUES (7)"); err != nil {
		return err
	}
	if err := w.expect(ctx, "7", "SELECT n::text FROM scratch"); err != nil {
		return err
	}
	return w.discard(ctx)
}

// copies puts rows in with COPY and gets them back.
func (w *worker) copies(ctx context.Context) error {
	n := w.values.Add(1)
	rows := strings.Repeat(fmt.Sprintf("%d\t%d\n", w.key, n), 1+w.r.IntN(500))
	if _, err := w.d.raw().CopyFrom(ctx, strings.NewReader(rows), "COPY public.sheet FROM STDIN"); err != nil {
		return fmt.Errorf("copy in: %w", err)
	}
	var got bytes.Buffer
	// The text is the same each time: COPY is judged with its constants, and new texts would
	// fill caches for as long as the soak lasts.
	newest := fmt.Sprintf("COPY (SELECT k, n FROM public.sheet s WHERE k = %d AND n = (SELECT max(n) FROM public.sheet t WHERE t.k = s.k)) TO STDOUT", w.key)
	if _, err := w.d.raw().CopyTo(ctx, &got, newest); err != nil {
		return fmt.Errorf("copy out: %w", err)
	}
	if got.String() != rows {
		return fmt.Errorf("%w: %d bytes copied in, %d out", errWrong, len(rows), got.Len())
	}
	w.checked.Add(1)
	return w.do(ctx, fmt.Sprintf("DELETE FROM public.sheet WHERE k = %d", w.key))
}

// listen is told of what the session itself announces.
func (w *worker) listen(ctx context.Context) error {
	channel := fmt.Sprintf("c%d", w.key)
	if err := w.do(ctx, "LISTEN "+channel, "NOTIFY "+channel+", 'hello'"); err != nil {
		return err
	}
	// It comes with the answer to NOTIFY, or right behind it.
	if err := w.expect(ctx, channel, "SELECT pg_listening_channels()"); err != nil {
		return err
	}
	return w.do(ctx, "UNLISTEN "+channel)
}

// cancel cancels what runs, perhaps too late, which must not hit what runs next.
func (w *worker) cancel(ctx context.Context) error {
	w.excused = map[string]bool{"57014": true}
	var asked sync.WaitGroup
	wait := w.soon()
	conn := w.d.raw()
	asked.Go(func() {
		time.Sleep(wait) // the moment is the point
		_ = conn.CancelRequest(ctx)
	})
	sql := []string{"SELECT pg_sleep(0.01)::text", "SELECT pg_sleep(5)::text", "SELECT count(*)::text FROM public.sheet"}[w.r.IntN(3)]
	if w.r.IntN(3) == 0 {
		sql = fmt.Sprintf("WITH u AS (UPDATE public.kv SET v = v WHERE k = %d RETURNING v) SELECT pg_sleep(0.01)::text FROM u", w.key)
	}
	_, err := w.d.ask(ctx, sql)
	asked.Wait()
	if err != nil && sqlstate(err) == "57014" {
		w.note(w.problems, "57014")
		return nil
	}
	return err
}

// vanish closes the connection in the middle of something.
func (w *worker) vanish(ctx context.Context) error {
	var closed sync.WaitGroup
	wait := w.soon()
	conn := w.d.raw()
	w.note(w.acts, "vanished")
	closed.Go(func() {
		time.Sleep(wait) // the moment is the point
		_ = conn.Conn().Close()
	})
	defer closed.Wait()
	for {
		if err := w.choose().do(w, ctx); err != nil {
			return err
		}
	}
}

// pipeline sends several sequences at once: one that sets, one that fails and undoes
// what it has set, and one that sees what is left.
func (w *worker) pipeline(ctx context.Context) error {
	next := w.values.Add(1)
	before := w.may
	sql, note := w.setting()
	other, _ := w.setting()
	p := w.d.raw().StartPipeline(ctx)
	send := func(sql string, args ...string) {
		var values [][]byte
		for _, a := range args {
			values = append(values, []byte(a))
		}
		p.SendQueryParams(sql, values, nil, nil, nil)
	}
	send("SET " + sql)
	send("UPDATE public.kv SET v = $2 WHERE k = $1 AND v < $2 RETURNING v::text", fmt.Sprint(w.key), fmt.Sprint(next))
	w.may = append(append([]int64(nil), before...), next)
	err := p.Sync()
	send("SET " + other)
	send("SELECT 1/$1::int", "0")
	send("SET " + other)
	if err == nil {
		err = p.Sync()
	}
	send("SELECT v::text FROM public.kv WHERE k = $1", fmt.Sprint(w.key))
	if err == nil {
		err = p.Sync()
	}
	var got []string
	for err == nil && len(got) < 7 {
		var result any
		switch result, err = p.GetResults(); r := result.(type) {
		case *pgconn.ResultReader:
			read := r.Read()
			got = append(got, first([]*pgconn.Result{read}))
			if err = read.Err; sqlstate(err) == "22012" {
				got, err = append(got, "22012"), nil
			}
		case *pgconn.PipelineSync:
			got = append(got, "sync")
		case nil:
			if err == nil {
				err = fmt.Errorf("%w: the pipeline ends after %q", errWrong, got)
			} else if sqlstate(err) == "22012" {
				got, err = append(got, "22012"), nil
			}
		}
	}
	if err != nil {
		_ = p.Close() // what comes of it is said already
		return fmt.Errorf("after %q: %w", got, err)
	}
	if err := p.Close(); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	w.may = []int64{next}
	note()
	if want := fmt.Sprintf("[ %d sync  22012 sync %d]", next, next); strings.Join(got, " ") != strings.Trim(want, "[]") {
		return fmt.Errorf("%w: pipeline gives %q, want %q", errWrong, got, want)
	}
	w.checked.Add(1)
	return nil
}
