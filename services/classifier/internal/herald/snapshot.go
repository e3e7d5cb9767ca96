package herald

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pgpilot/pgpilot/libs/bus"
	"github.com/pgpilot/pgpilot/libs/obs"
	"github.com/pgpilot/pgpilot/libs/verdict"
	"github.com/pgpilot/pgpilot/services/classifier/internal/clerk"
)

const (
	// snapshotMost and snapshotSize bound the verdicts of a snapshot, by their number and
	// together in bytes: all parts must stay below what the bus keeps for one slow listener
	// (4 MB).
	snapshotMost = 4000
	snapshotSize = 3 << 20
	// partSize is about the largest part in bytes, half of what the bus carries.
	partSize = 256 << 10
	// verdictSize is the most a verdict takes in JSON beside its detail and its database's
	// name, each byte of which may take escapeSize.
	verdictSize = 320
	escapeSize  = 6
	// longestName is the longest name of a database, NAMEDATALEN-1 in PostgreSQL, with
	// room for builds that have a longer one. What is asked for a longer name is for no
	// database.
	longestName = 255
	// quiet is how long after the last answer siblings are waited for.
	quiet = 200 * time.Millisecond
)

// Clerk is whose verdicts the Herald knows.
type Clerk interface {
	Generations() map[string]uint64
	Recent(n int) []clerk.Known
	Learn(clerk.Known)
	Flushed(database string, generation uint64) bool
}

// Desk answers the bus's questions and hears its flushes.
type Desk struct {
	Clerk Clerk
	// Instance and Build are this classifier's id and version.
	Instance, Build string
	Metrics         *bus.Metrics
	Log             *slog.Logger
}

// Run takes over what siblings know, as soon as there is a bus, and only then
// answers the same question of others. It returns when that is set up or ctx
// ends; the subscriptions end with nc.
func (d *Desk) Run(ctx context.Context, nc *nats.Conn) error {
	if _, err := bus.Subscribe(nc, bus.SubjectVerdictFlush, d.Metrics, d.hear); err != nil {
		return err
	}
	for {
		err := bus.Collect(ctx, nc, bus.SubjectVerdictSnapshot, quiet, d.Metrics, d.learn)
		if err == nil || errors.Is(err, bus.ErrSilence) {
			break
		}
		if !bus.Offline(err) {
			d.Log.Debug("no snapshot of verdicts, trying again", obs.KeyError, err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(quiet):
		}
	}
	if _, err := nc.Subscribe(bus.SubjectVerdictSnapshot, d.answer); err != nil {
		return fmt.Errorf("subscribe to %s: %w", bus.SubjectVerdictSnapshot, err)
	}
	return nil
}

func (d *Desk) hear(m bus.Flush) {
	if d.Clerk.Flushed(m.Database, m.Generation) {
		d.Log.Info("another classifier has flushed a database's verdicts", obs.KeyDatabase, m.Database)
	}
}

// learn takes over what a sibling knows. One of another build may judge by other
// rules, and only its flushes count.
func (d *Desk) learn(part bus.VerdictSnapshot) {
	for _, f := range part.Flushes {
		d.hear(f)
	}
	if part.Build != d.Build {
		return
	}
	for _, m := range part.Verdicts {
		if key, v, err := verdict.FromMessage(m); err == nil {
			d.Clerk.Learn(clerk.Known{Database: m.Database, Key: key, Verdict: v})
		}
	}
}

func (d *Desk) answer(msg *nats.Msg) {
	if msg.Reply == "" {
		return
	}
	for _, part := range d.parts() {
		data, err := bus.Encode(part)
		if err == nil {
			err = msg.Respond(data)
		}
		if err != nil {
			d.Log.Warn("a snapshot of verdicts was not sent", obs.KeyError, err)
			return
		}
	}
}

// parts is what is known, in messages that the bus carries. Generations are looked
// up first: a flush between the two makes the verdicts look old, not new.
func (d *Desk) parts() []bus.VerdictSnapshot {
	part := bus.VerdictSnapshot{V: bus.Version, Publisher: d.Instance, Build: d.Build, Verdicts: []bus.Verdict{}}
	first := part
	for database, generation := range d.Clerk.Generations() {
		first.Flushes = append(first.Flushes, bus.Flush{V: bus.Version, Database: database, Generation: generation})
	}
	out := []bus.VerdictSnapshot{first}
	size := partSize // the first part has flushes alone
	for _, m := range d.recent() {
		most := sizeOf(&m)
		if size+most > partSize {
			out = append(out, part)
			size = 0
		}
		size += most
		last := &out[len(out)-1]
		last.Verdicts = append(last.Verdicts, m)
	}
	for i := range out {
		out[i].Parts = len(out)
	}
	return out
}

// recent gives the verdicts of a snapshot, the latest last: of those that were used last as
// many as there is room for.
func (d *Desk) recent() []bus.Verdict {
	var out []bus.Verdict
	room := snapshotSize
	for _, k := range slices.Backward(d.Clerk.Recent(snapshotMost)) {
		if len(k.Database) > longestName {
			continue
		}
		m := k.Verdict.Message(k.Database, k.Key)
		if room -= sizeOf(&m); room < 0 {
			break
		}
		out = append(out, m)
	}
	slices.Reverse(out)
	return out
}

// sizeOf is the most a verdict takes in a part.
func sizeOf(m *bus.Verdict) int { return verdictSize + escapeSize*len(m.Database) + len(m.Detail) }
