package news

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pgpilot/pgpilot/libs/bus"
	"github.com/pgpilot/pgpilot/libs/obs"
	"github.com/pgpilot/pgpilot/libs/rundir"
)

const (
	// quiet is how long after the last part of a snapshot the next is waited for.
	quiet = 200 * time.Millisecond
	// warmUpAgain is the pause after a snapshot could not be had; it doubles up to
	// warmUpLast.
	warmUpAgain = 50 * time.Millisecond
	warmUpLast  = 2 * time.Second
	// WarmUpTime is how long a router that starts waits for what classifiers know, before
	// it takes sessions. A snapshot takes some milliseconds; the rest is for a bus that
	// starts at the same time.
	WarmUpTime = time.Second
)

// warmth says how a router's first snapshot ended.
type warmth struct {
	once *sync.Once
	// known is closed when that is so.
	known chan struct{}
	// verdicts and classifiers are what it had; read once known is closed.
	verdicts, classifiers int
}

func newWarmth() warmth { return warmth{once: new(sync.Once), known: make(chan struct{})} }

// settle notes the first snapshot.
func (w *warmth) settle(g *gathering) {
	w.once.Do(func() {
		w.verdicts, w.classifiers = g.verdicts, len(g.from)
		close(w.known)
	})
}

// AwaitVerdicts waits, most at the longest, until the Reader of Deliver has been given
// what the classifiers know, so that a router that starts under load need not ask for
// each of its statements. Where there is no classifier it does not wait. Either way the
// log has how it went; what is missed comes later.
func (p *Paper) AwaitVerdicts(ctx context.Context, most time.Duration) {
	start := time.Now()
	patience := time.NewTimer(most)
	defer patience.Stop()
	select {
	case <-p.warmth.known:
	case <-ctx.Done():
		return
	case <-patience.C:
		p.env.Log.Warn("no classifier has sent what it knows: statements are asked for one by one", "waited", most)
		return
	}
	if p.warmth.classifiers == 0 {
		p.env.Log.Info("no classifier is running: until one is, statements that are not known run on the primary")
		return
	}
	p.env.Log.Info("verdicts taken over", "verdicts", p.warmth.verdicts, "classifiers", p.warmth.classifiers,
		"took", time.Since(start).Round(time.Millisecond))
}

// warmUp asks the classifiers for what they know, at the start and whenever the
// bus was away: a flush may have been published meanwhile.
func (p *Paper) warmUp(r Reader) {
	connected := p.nc.StatusChanged(nats.CONNECTED)
	defer p.nc.RemoveStatusListener(connected)
	pause := warmUpAgain
	for {
		here := p.classifiers()
		got := &gathering{from: make(map[string]progress)}
		err := bus.Collect(p.ctx, p.nc, bus.SubjectVerdictSnapshot, quiet, p.metrics, func(m bus.VerdictSnapshot) {
			for _, f := range m.Flushes {
				r.FlushVerdicts(f.Database, f.Generation)
			}
			for _, v := range m.Verdicts {
				p.deliver(r, bus.SubjectVerdictSnapshot, v)
			}
			got.note(m)
			if here > 0 && got.whole >= here {
				p.warmth.settle(got) // those of other machines are not waited for
			}
		})
		if err == nil || here == 0 {
			p.warmth.settle(got)
		}
		var again <-chan time.Time
		if err == nil {
			pause = warmUpAgain
		} else {
			p.env.Log.Debug("no verdicts from the bus yet", obs.KeyError, err)
			again = time.After(pause)
			pause = min(2*pause, warmUpLast)
		}
		select {
		case <-p.ctx.Done():
			return
		case <-connected:
			pause = warmUpAgain
		case <-again:
		}
	}
}

// classifiers counts those on this machine.
func (p *Paper) classifiers() int {
	list, err := p.env.Dir.List(rundir.Classifier)
	if err != nil {
		p.env.Log.Warn("cannot see which classifiers run", obs.KeyError, err)
	}
	return len(list)
}

// gathering is what has come of a snapshot.
type gathering struct {
	from     map[string]progress
	verdicts int
	// whole are the classifiers that have sent all they know.
	whole int
}

// progress counts the parts of one classifier's snapshot.
type progress struct{ parts, of int }

func (g *gathering) note(m bus.VerdictSnapshot) {
	g.verdicts += len(m.Verdicts)
	n := g.from[m.Publisher]
	n.parts++
	n.of = max(n.of, m.Parts)
	g.from[m.Publisher] = n
	if n.parts == n.of {
		g.whole++
	}
}
