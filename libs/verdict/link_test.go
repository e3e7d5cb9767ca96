package verdict

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// dials runs a link whose attempts to connect are answered one after the other, and gives the
// pauses between the end of one and the next, until there is no answer left.
func dials(t *testing.T, answers ...func() (net.Conn, error)) (pauses []time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		attempts := 0
		var ended time.Time
		c := &Client{shunned: shunned, wake: make(chan struct{}, 1)}
		c.dial = func(context.Context, string) (net.Conn, error) {
			if attempts > 0 {
				pauses = append(pauses, time.Since(ended))
			}
			if attempts++; attempts > len(answers) {
				stop()
				return nil, ctx.Err()
			}
			conn, err := answers[attempts-1]()
			ended = time.Now()
			if conn == nil {
				return nil, err
			}
			return &timed{Conn: conn, ended: &ended}, nil
		}
		l := &link{c: c, log: slog.New(slog.DiscardHandler), stop: stop, kick: make(chan struct{}, 1), asks: map[uint64]*ask{}}
		l.run(ctx)
	})
	return pauses
}

// timed notes when its peer has hung up.
type timed struct {
	net.Conn
	ended *time.Time
}

func (c *timed) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	*c.ended = time.Now()
	return n, err
}

// hangsUpAfter accepts and says nothing until it hangs up.
func hangsUpAfter(d time.Duration) func() (net.Conn, error) {
	return func() (net.Conn, error) {
		ours, theirs := net.Pipe()
		time.AfterFunc(d, func() { theirs.Close() })
		return ours, nil
	}
}

func refuses() (net.Conn, error) { return nil, errors.New("refused") }

// A classifier that accepts and hangs up at once is dialled less and less often, as is
// one that does not accept; one whose connection has lasted is dialled soon.
func TestPausesBetweenDials(t *testing.T) {
	const first, last = firstRedial, lastRedial
	up := hangsUpAfter(0)
	for name, c := range map[string]struct {
		answers []func() (net.Conn, error)
		want    []time.Duration
	}{
		"hangs up at once":              {[]func() (net.Conn, error){up, up, up, up, up, up}, []time.Duration{first, 2 * first, 4 * first, 8 * first, last, last}},
		"does not accept":               {[]func() (net.Conn, error){refuses, refuses, refuses, refuses, refuses, refuses}, []time.Duration{first, 2 * first, 4 * first, 8 * first, last, last}},
		"now the one, now the other":    {[]func() (net.Conn, error){up, refuses, up, refuses, up}, []time.Duration{first, 2 * first, 4 * first, 8 * first, last}},
		"a connection that has lasted":  {[]func() (net.Conn, error){up, up, hangsUpAfter(2 * last), up, up}, []time.Duration{first, 2 * first, first, 2 * first, 4 * first}},
		"one that lasts a little while": {[]func() (net.Conn, error){up, up, hangsUpAfter(last / 2), up}, []time.Duration{first, 2 * first, 4 * first, 8 * first}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := dials(t, c.answers...); !slices.Equal(got, c.want) {
				t.Errorf("pauses %v, want %v", got, c.want)
			}
		})
	}
}
