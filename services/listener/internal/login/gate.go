package login

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
	"golang.org/x/sys/unix"

	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/libs/scram"
	"github.com/pgpilot/pgpilot/services/listener/internal/encryption"
	"github.com/pgpilot/pgpilot/services/listener/internal/ledger"
	"github.com/pgpilot/pgpilot/services/listener/internal/refusal"
	"github.com/pgpilot/pgpilot/services/listener/internal/startup"
	"github.com/pgpilot/pgpilot/services/listener/internal/throttle"
)

// Policy is what may change while the listener runs.
type Policy struct {
	// Book has the users.
	Book *scram.Book
	// TLS is what is done about encryption.
	TLS *encryption.Policy
	// Timeout bounds a login (limits.login_timeout).
	Timeout time.Duration
}

// Gate lets clients in. It is safe for concurrent use.
type Gate struct {
	ledger   *ledger.Ledger
	throttle *throttle.Throttle
	policy   atomic.Pointer[Policy]
}

// NewGate gives a gate that enters clients in a ledger.
func NewGate(l *ledger.Ledger, p Policy) *Gate {
	g := &Gate{ledger: l, throttle: throttle.New()}
	g.SetPolicy(p)
	return g
}

// SetPolicy is for logins that begin after it.
func (g *Gate) SetPolicy(p Policy) { g.policy.Store(&p) }

// Request is what an admitted client wants: exactly one of the fields is set.
type Request struct {
	// Session is entered in the ledger; the client has been told AuthenticationOk.
	Session *handoff.Record
	// Cancel is to be passed on; the client is told nothing.
	Cancel *handoff.CancelKey
}

// Denied is a failed authentication. The client is told the refusal in it.
type Denied struct {
	*refusal.Refusal
	User string
	// Why is for the log only.
	Why string
}

// Unwrap gives the refusal.
func (d *Denied) Unwrap() error { return d.Refusal }

// Admit serves a client until it has asked for something it may have. The client
// is to be told of an error in which there is a *refusal.Refusal; otherwise the
// connection is closed without a word, as PostgreSQL does. When ctx ends the
// client is sent away, with the refusal that is the cause if there is one in it.
func (g *Gate) Admit(ctx context.Context, c *startup.Client) (*Request, error) {
	p := g.policy.Load()
	ctx, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) }) // fails only on a closed connection
	defer stop()

	packet, err := startup.Negotiate(c, p.TLS.Config)
	switch {
	case err != nil:
		return nil, stopping(ctx, err)
	case packet.Kind == startup.Cancel:
		return &Request{Cancel: &packet.Key}, nil
	}
	entry, err := g.enter(ctx, c, p, packet)
	if err != nil {
		if ctx.Err() == context.DeadlineExceeded || errors.Is(err, os.ErrDeadlineExceeded) {
			err = refusal.New(refusal.QueryCanceled, "canceling authentication due to timeout")
		}
		return nil, stopping(ctx, err)
	}
	secure, _ := c.Secure()
	return &Request{Session: &handoff.Record{
		Session:     entry.Session,
		User:        packet.User,
		Database:    packet.Database,
		Client:      clientName(c),
		TLS:         secure != nil,
		Protocol:    packet.Version,
		Startup:     packet.Parameters,
		Replication: packet.Replication,
		Cancel:      entry.Cancel,
	}}, nil
}

// enter authenticates a client and enters it in the ledger. It has a place only once
// it has proved who it is, so that those who have not cannot fill the house.
func (g *Gate) enter(ctx context.Context, c *startup.Client, p *Policy, packet *startup.Packet) (entry ledger.Entry, err error) {
	secure, _ := c.Secure()
	switch {
	case !p.TLS.Admits(c.Local(), secure != nil):
		return entry, &refusal.Refusal{Code: refusal.InvalidAuthorization,
			Message: fmt.Sprintf(`connection from host "%s" for user "%s", database "%s" is not encrypted`, Origin(c), packet.User, packet.Database),
			Hint:    "Connect with sslmode=require or better."}
	case g.ledger.Full():
		return entry, tooMany() // before the work
	case !p.TLS.Certified(secure):
		return entry, refusal.New(refusal.InvalidAuthorization, "connection requires a valid client certificate")
	}
	proof, err := g.authenticate(ctx, c, p, packet)
	if err != nil {
		return entry, err
	}
	entry, ok := g.ledger.Open(packet.Version)
	if !ok {
		return entry, tooMany()
	}
	if err := send(c, nil, &pgproto3.AuthenticationSASLFinal{Data: proof}, &pgproto3.AuthenticationOk{}); err != nil {
		g.ledger.Close(entry.Session)
		return entry, err
	}
	return entry, nil
}

func tooMany() *refusal.Refusal {
	return refusal.New(refusal.TooManyConnections, "sorry, too many clients already")
}

// stopping replaces an error that was caused by the end of the listener, or of its
// patience with this client.
func stopping(ctx context.Context, err error) error {
	if ctx.Err() != context.Canceled {
		return err
	}
	var r *refusal.Refusal
	if errors.As(context.Cause(ctx), &r) {
		return r
	}
	return refusal.New(refusal.CannotConnectNow, "the database system is shutting down")
}

// clientName is how the record and the log call a client.
func clientName(c *startup.Client) string {
	if c.Local() {
		return "unix"
	}
	return c.RemoteAddr().String()
}

// guess names whoever guesses at a user's password: a misconfigured application
// does not slow down the others on its host.
func guess(c *startup.Client, user string) string { return Origin(c) + " " + user }

// Origin is where a client comes from: the host, or the user of a local client.
func Origin(c *startup.Client) string {
	if !c.Local() {
		host, _, err := net.SplitHostPort(c.RemoteAddr().String())
		if err != nil {
			return c.RemoteAddr().String()
		}
		return host
	}
	uid := "unknown"
	if raw, err := c.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { // fails only on a closed connection
			if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
				uid = strconv.Itoa(int(cred.Uid))
			}
		})
	}
	return "uid " + uid
}
