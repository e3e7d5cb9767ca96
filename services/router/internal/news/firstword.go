package news

import (
	"context"
	"sync"
	"time"

	"github.com/pgpilot/pgpilot/libs/bus"
	"github.com/pgpilot/pgpilot/libs/obs"
	"github.com/pgpilot/pgpilot/libs/rundir"
)

// firstWord is closed once a lagpoller has said who the primary is.
type firstWord struct {
	once  sync.Once
	known chan struct{}
}

// topology passes on who the primary is.
func (p *Paper) topology(r Reader, m bus.Topology) {
	r.Topology(m)
	p.first.once.Do(func() { close(p.first.known) })
}

// AwaitTopology waits, most at the longest, until the Reader of Deliver has been told who the
// primary is: until then the configured one is taken for it, which may have been replaced by a
// promotion and be back. A lagpoller that starts says it once it has asked every server. Where
// there is no lagpoller nobody will say it, and it is not waited for.
func (p *Paper) AwaitTopology(ctx context.Context, most time.Duration) {
	if p.env.Config.Bus.URL == "" {
		running, err := p.env.Dir.List(rundir.Lagpoller)
		if err != nil {
			p.env.Log.Warn("cannot see which lagpollers run", obs.KeyError, err)
		}
		if len(running) == 0 {
			return
		}
	}
	patience := time.NewTimer(most)
	defer patience.Stop()
	select {
	case <-p.first.known:
	case <-ctx.Done():
	case <-patience.C:
		p.env.Log.Warn("no lagpoller has said who the primary is: until one does, it is taken to be the configured one", "waited", most)
	}
}
