package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgpilot/pgpilot/libs/bus"
	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/lab"
	"github.com/pgpilot/pgpilot/libs/stack"
)

const (
	breath = 1500 * time.Millisecond // after an answer
	read   = 4 * time.Second         // after an explanation
	// retry is how often something that takes a moment is asked for again.
	retry = 50 * time.Millisecond
	// cleanTimeout bounds what must be done even after an interrupt.
	cleanTimeout = 20 * time.Second
)

const table = "pgpilot_demo"

// walk is one run of the demo. Each chapter checks that what it tells is so.
type walk struct {
	stack   *stack.Stack
	cluster *lab.Cluster
	cfg     *config.Config
	say     *narrator
	feed    *feed
	writer  *session
	other   *session
}

func newWalk(s *stack.Stack, c *lab.Cluster, cfg *config.Config, say *narrator) *walk {
	return &walk{stack: s, cluster: c, cfg: cfg, say: say}
}

func (w *walk) run(ctx context.Context) (err error) {
	if w.writer, err = w.connect(ctx, "writer"); err != nil {
		return err
	}
	defer w.end(w.writer)
	if w.other, err = w.connect(ctx, "other"); err != nil {
		return err
	}
	defer w.end(w.other)
	if w.feed, err = openFeed(w.cfg.Bus.Listen, w.say); err != nil {
		return err
	}
	defer w.feed.close()
	defer func() { err = errors.Join(err, w.tidy(ctx)) }()
	for _, chapter := range []func(context.Context) error{
		w.readOnReplica, w.writeAndRead, w.pauseReplay, w.fencedRead, w.otherSession, w.resumeReplay, w.stranger,
	} {
		if err := chapter(ctx); err != nil {
			return err
		}
	}
	w.feed.close()
	w.say.line("", "")
	w.say.tell("That is all: writes on the primary, reads on replicas, and nobody misses what they wrote.")
	return nil
}

func (w *walk) connect(ctx context.Context, name string) (*session, error) {
	dsn, err := w.stack.DSN(lab.User, lab.Password, lab.Database)
	if err != nil {
		return nil, err
	}
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("read the address of pgpilot: %w", err)
	}
	cfg.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol // as psql does
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("connect through pgpilot: %w", err)
	}
	return &session{name: name, conn: conn, say: w.say}, nil
}

func (w *walk) end(s *session) {
	ctx, cancel := context.WithTimeout(context.Background(), cleanTimeout)
	defer cancel()
	_ = s.conn.Close(ctx)
}

// tidy leaves everything as it was, also after a failure or an interrupt.
func (w *walk) tidy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTimeout)
	defer cancel()
	var failed []error
	for _, m := range w.cluster.Replicas() {
		failed = append(failed, m.ResumeReplay(ctx))
	}
	// Not through pgpilot: the session may be what failed.
	conn, err := pgx.Connect(ctx, w.cluster.Primary().DSN())
	if err != nil {
		return errors.Join(append(failed, fmt.Errorf("drop the demo's table: %w", err))...)
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err := conn.Exec(ctx, "DROP TABLE IF EXISTS "+table); err != nil {
		failed = append(failed, fmt.Errorf("drop the demo's table: %w", err))
	}
	return errors.Join(failed...)
}

func (w *walk) readOnReplica(ctx context.Context) error {
	w.say.title("A read goes to a replica")
	w.say.tell(fmt.Sprintf("The primary listens on port %d, the replicas on the next ones. A client connects to\n"+
		"pgpilot (%s) and asks which server it got.", w.cluster.Primary().Port, w.cfg.Listen))
	port, route, err := w.writer.ask(ctx, "SELECT inet_server_port()")
	if err != nil {
		return err
	}
	isReplica := func(m *lab.Member) bool { return strconv.Itoa(m.Port) == port }
	if !slices.ContainsFunc(w.cluster.Replicas(), isReplica) || route.Role != string(bus.Replica) {
		return fmt.Errorf("the read ran on port %s (%s), not on a replica", port, route.Role)
	}
	w.say.pause(ctx, read)
	return nil
}

func (w *walk) writeAndRead(ctx context.Context) error {
	w.say.title("Writes go to the primary, and once replayed they are read on replicas")
	w.say.tell("Lag events pass on the bus all the while; those that are news are shown.")
	for _, sql := range []string{
		"DROP TABLE IF EXISTS " + table, "CREATE TABLE " + table + " (body text)", "INSERT INTO " + table + " VALUES ('old')",
	} {
		if err := w.write(ctx, sql); err != nil {
			return err
		}
	}
	if err := w.readsOnReplica(ctx, w.writer, "old"); err != nil {
		return err
	}
	_, err := w.expect(ctx, w.writer, "old", bus.Replica)
	w.say.pause(ctx, read)
	return err
}

func (w *walk) pauseReplay(ctx context.Context) error {
	w.say.title("Replay is paused on every replica")
	w.say.tell("The replicas go on receiving WAL but show nothing new: lag that does not end.")
	for _, m := range w.cluster.Replicas() {
		if err := m.PauseReplay(ctx); err != nil {
			return err
		}
		w.say.line(cyan, "   "+m.Name+"=> SELECT pg_wal_replay_pause()")
	}
	w.say.pause(ctx, breath)
	return nil
}

func (w *walk) fencedRead(ctx context.Context) error {
	w.say.title("A write, and the next read")
	if err := w.write(ctx, "UPDATE "+table+" SET body = 'new'"); err != nil {
		return err
	}
	route, err := w.expect(ctx, w.writer, "new", bus.Primary)
	if err != nil {
		return err
	}
	if route.Fence == "" {
		return errors.New("the read after the write shows no fence")
	}
	w.say.tell("The write left a fence: the session may only read where WAL is replayed up to " + route.Fence + ".\n" +
		"No replica is known to have replayed that far, so the read went to the primary.")
	for _, m := range w.cluster.Replicas() {
		lags := func() (bool, error) { return w.feed.behind(m.Name), nil }
		if err := w.wait(ctx, "an event that tells of the lag of "+m.Name, lags); err != nil {
			return err
		}
	}
	w.say.pause(ctx, read)
	return nil
}

func (w *walk) otherSession(ctx context.Context) error {
	w.say.title("Another session, which has written nothing")
	if _, err := w.expect(ctx, w.other, "old", bus.Replica); err != nil {
		return err
	}
	w.say.tell("It has no fence: a replica may serve it, as of a moment ago. Load stays on the replicas\n" +
		"even while they lag; only sessions that wrote go to the primary.")
	w.say.pause(ctx, read)
	return nil
}

func (w *walk) resumeReplay(ctx context.Context) error {
	w.say.title("Replay is resumed")
	for _, m := range w.cluster.Replicas() {
		w.say.line(cyan, "   "+m.Name+"=> SELECT pg_wal_replay_resume()")
		if err := m.ResumeReplay(ctx); err != nil {
			return err
		}
	}
	if err := w.readsOnReplica(ctx, w.writer, "new"); err != nil {
		return err
	}
	route, err := w.expect(ctx, w.writer, "new", bus.Replica)
	if err != nil {
		return err
	}
	w.say.tell("The session reads its own write on " + route.Backend + ": replay has passed the fence.")
	w.say.pause(ctx, read)
	return nil
}

func (w *walk) stranger(ctx context.Context) error {
	w.say.title("Anybody may listen on the bus, but not speak")
	w.say.tell(fmt.Sprintf("The lag events came from nats://%s, subject %s, without a password.\n"+
		"A forged event could make pgpilot read stale rows, so this is what publishing one gets:", w.cfg.Bus.Listen, w.feed.subject))
	refusal, err := w.feed.forge(ctx)
	if err != nil {
		return err
	}
	w.say.line(bold, "      "+refusal)
	w.say.pause(ctx, breath)
	return nil
}

// write runs a statement that must run on the primary.
func (w *walk) write(ctx context.Context, sql string) error {
	_, route, err := w.writer.ask(ctx, sql)
	if err != nil {
		return err
	}
	if route.Role != string(bus.Primary) {
		return fmt.Errorf("%q ran on %s (%s), not on the primary", sql, route.Backend, route.Role)
	}
	w.say.pause(ctx, breath)
	return nil
}

// expect reads the row and checks the value and the server's role.
func (w *walk) expect(ctx context.Context, s *session, want string, role bus.Role) (stack.Route, error) {
	value, route, err := s.ask(ctx, "SELECT body FROM "+table)
	if err != nil {
		return route, err
	}
	if value != want || route.Role != string(role) {
		return route, fmt.Errorf("the %s session read %q on %s (%s), not %q on a %s", s.name, value, route.Backend, route.Role, want, role)
	}
	w.say.pause(ctx, breath)
	return route, nil
}

// readsOnReplica waits until a session's reads run on a replica again. A stale value
// is an error, however short.
func (w *walk) readsOnReplica(ctx context.Context, s *session, want string) error {
	if err := w.cluster.WaitCaughtUp(ctx); err != nil {
		return err
	}
	return w.wait(ctx, "reads on a replica", func() (bool, error) {
		value, route, err := s.quietly(ctx, "SELECT body FROM "+table)
		if err == nil && value != want {
			err = fmt.Errorf("a stale read: %q on %s, after %q was written", value, route.Backend, want)
		}
		return route.Role == string(bus.Replica), err
	})
}

// wait asks again until something that takes a moment is so.
func (w *walk) wait(ctx context.Context, what string, done func() (bool, error)) error {
	ticker := time.NewTicker(retry)
	defer ticker.Stop()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", what, ctx.Err())
		case <-ticker.C:
		}
	}
}
