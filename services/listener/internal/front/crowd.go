package front

import (
	"context"
	"sync"
	"time"

	"github.com/pgpilot/pgpilot/services/listener/internal/login"
	"github.com/pgpilot/pgpilot/services/listener/internal/refusal"
	"github.com/pgpilot/pgpilot/services/listener/internal/startup"
)

const (
	// maxLogins is how many clients may be on their way in at once. While all places
	// are taken others wait in the kernel's queue.
	maxLogins = 1024
	// courtesy is how long a client that has not proved who it is may be waited for, in
	// all, before it loses its place to one that wants it. Nobody loses it otherwise, until
	// limits.login_timeout.
	courtesy = 2 * time.Second
	// lookAgain is the pause between two looks for such a client.
	lookAgain = 100 * time.Millisecond
)

// crowd is the clients on their way in. It has a limited number of places, and sees to
// it that nobody can hold them all by saying nothing: PostgreSQL's own defence,
// authentication_timeout, leaves them taken for a minute.
type crowd struct {
	places chan struct{}
	mu     sync.Mutex
	guests map[*guest]struct{} // those that have not proved who they are
}

// guest is one of them.
type guest struct {
	crowd  *crowd
	client *startup.Client
	origin string
	// dismiss ends the login.
	dismiss context.CancelCauseFunc
	left    sync.Once
}

func newCrowd() *crowd {
	return &crowd{places: make(chan struct{}, maxLogins), guests: map[*guest]struct{}{}}
}

// admit takes a place, making one if it must and can. It fails when ctx ends.
func (c *crowd) admit(ctx context.Context) error {
	select {
	case c.places <- struct{}{}:
		return nil
	default:
	}
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	for {
		c.makeRoom(time.Now())
		select {
		case c.places <- struct{}{}:
			return nil
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// makeRoom sends away the guest that has been waited for longest, of the origin that
// has the most slow ones: one host that is at fault pays before all others.
func (c *crowd) makeRoom(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	type slow struct {
		count   int
		slowest *guest
		waited  time.Duration
	}
	by := map[string]*slow{}
	var worst *slow
	for g := range c.guests {
		waited, owes := g.client.Owes(now)
		if !owes || waited < courtesy {
			continue
		}
		s := by[g.origin]
		if s == nil {
			s = &slow{}
			by[g.origin] = s
		}
		s.count++
		if waited > s.waited {
			s.slowest, s.waited = g, waited
		}
		if worst == nil || s.count > worst.count {
			worst = s
		}
	}
	if worst != nil {
		delete(c.guests, worst.slowest)
		worst.slowest.dismiss(refusal.New(refusal.TooManyConnections, "too many clients are logging in, and this one has been waited for too long"))
	}
}

// enter notes a client that has a place. The context ends when the client loses it.
func (c *crowd) enter(ctx context.Context, client *startup.Client) (context.Context, *guest) {
	ctx, dismiss := context.WithCancelCause(ctx)
	g := &guest{crowd: c, client: client, origin: login.Origin(client), dismiss: dismiss}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.guests[g] = struct{}{}
	return ctx, g
}

// known says that the client does not lose its place any more.
func (g *guest) known() {
	g.crowd.mu.Lock()
	defer g.crowd.mu.Unlock()
	delete(g.crowd.guests, g)
}

// leave gives the place back, once.
func (c *crowd) leave(g *guest) {
	g.left.Do(func() {
		g.dismiss(nil)
		<-c.places
	})
}

// len is how many places are taken.
func (c *crowd) len() int { return len(c.places) }
