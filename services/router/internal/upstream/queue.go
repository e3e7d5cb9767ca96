package upstream

import (
	"context"
	"errors"
	"net"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgconn"
)

// loginsAtOnce bounds how many logins to one server are under way. A server forks a
// process for each and both sides compute for its password: when a whole pool is filled at
// once on a busy machine, all of them would be done together, and late, or not before
// their time is up, where the first could be of use already.
const loginsAtOnce = 8

// queue is where logins wait for their turn.
type queue struct {
	places chan struct{}
	// failures counts those that found the server not to answer, and last is the
	// latest.
	failures atomic.Uint64
	last     atomic.Pointer[error]
}

func newQueue() *queue { return &queue{places: make(chan struct{}, loginsAtOnce)} }

// do logs in when it is its turn. Where one that was before it has found that the server
// does not answer, it fails with the same error: it would only wait as long again.
func (q *queue) do(ctx context.Context, login func() error) error {
	failures := q.failures.Load()
	select {
	case q.places <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-q.places }()
	if q.failures.Load() != failures {
		return *q.last.Load()
	}
	err := login()
	if unanswered(err) && ctx.Err() == nil {
		q.last.Store(&err)
		q.failures.Add(1)
	}
	return err
}

// unidentified is the error of a login that succeeded, on a server that did not say which
// run it is: it says nothing of other logins.
type unidentified struct{ error }

func (u unidentified) Unwrap() error { return u.error }

// unanswered reports whether an error says that the server does not answer, rather than
// what it answers.
func unanswered(err error) bool {
	var refusal *pgconn.PgError
	var network net.Error
	var logged unidentified
	return err != nil && !errors.As(err, &refusal) && !errors.As(err, &logged) && (pgconn.Timeout(err) || errors.As(err, &network))
}
