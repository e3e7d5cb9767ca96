package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/pgpilot/pgpilot/libs/lsn"
	"github.com/pgpilot/pgpilot/services/router/internal/fence"
	"github.com/pgpilot/pgpilot/services/router/internal/poll"
	"github.com/pgpilot/pgpilot/services/router/internal/session"
)

// admission is a fence token that waits to be held against a probe of the primary that
// starts after it has arrived: only that tells what exists.
type admission struct {
	c     *client
	token fence.Token
	due   poll.Timer
	again poll.Timer
}

// admitAgainAfter is the pause before a token is looked at again that could not be
// judged by what was known.
const admitAgainAfter = 50 * time.Millisecond

// admit begins to look at a token.
func (c *client) admit(t fence.Token) {
	e := c.e
	a := &admission{c: c, token: t}
	c.admission = a
	c.wait.since, c.wait.fenced = e.now, true
	e.timers.Set(&a.due, e.now.Add(e.cfg.Failover.Wait.D()), func() {
		e.admitted(a, lsn.Position{}, false, &session.Problem{
			Code:    "57P03",
			Message: fmt.Sprintf("the fence token could not be checked within %s", e.cfg.Failover.Wait),
			Detail:  "The primary's position, or its history, is not known.",
			Hint:    "Try again when the primary can be reached; /readyz says what is wrong. failover.wait says how long statements wait for that.",
		})
	})
	e.probe.admit(a)
}

// admit holds the token against the next probe that starts.
func (p *probe) admit(a *admission) {
	p.group.Join(settlement{admits: a}, &a.c.admits)
	p.start()
}

// weigh holds a token against what a probe has read. A probe of a timeline that the
// news do not tell of yet says nothing.
func (e *Engine) weigh(a *admission, at lsn.Position) {
	if a.c.admission != a {
		return
	}
	h := *e.tracker.History()
	if h.SystemID == 0 || h.Now.Timeline != at.Timeline {
		e.timers.Set(&a.again, e.now.Add(admitAgainAfter), func() { e.probe.admit(a) })
		return
	}
	h.Now = at
	position, lost, err := h.Admit(a.token)
	e.admitted(a, position, lost, notAdmitted(err))
}

// notAdmitted gives the error of a token that is refused.
func notAdmitted(err error) *session.Problem {
	if err == nil {
		return nil
	}
	p := &session.Problem{Code: "22023", Message: err.Error()}
	switch {
	case errors.Is(err, fence.ErrOtherCluster):
		p.Hint = "Use a token only with the cluster that it was given by."
	default:
		p.Hint = "What it stands for may have been lost when another server became the primary: check the data that was written last."
	}
	return p
}

// admitted tells the session what has become of its token.
func (e *Engine) admitted(a *admission, at lsn.Position, lost bool, p *session.Problem) {
	c := a.c
	c.withdrawToken()
	c.follow() // a token of a later timeline must not make less of what is known on an earlier one
	if lost {
		e.metrics.FenceLost.Inc()
		c.log.Warn("a write that a fence token stands for is not part of what the primary has", "token", a.token.String(), "kept", at.LSN.String())
	}
	c.s.Admitted(at, lost, p)
	c.perform()
	c.resume()
	c.waitedForFence()
}

// withdrawToken forgets the token that the session waits for, if it does.
func (c *client) withdrawToken() {
	if a := c.admission; a != nil {
		c.admission = nil
		c.e.timers.Stop(&a.due)
		c.e.timers.Stop(&a.again)
	}
}
