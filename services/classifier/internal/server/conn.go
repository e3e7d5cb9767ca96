package server

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/pgpilot/pgpilot/libs/obs"
	"github.com/pgpilot/pgpilot/libs/verdict"
)

const (
	// maxPending judgements of one connection may be under way.
	maxPending = 1024
	// maxAnswers may wait to be written; then judgements wait, and then the reader.
	maxAnswers = 256
	// longText is from how many bytes on a text counts as long: it shares the parser with
	// few (parse.ShortText), and so may wait for it.
	longText = 32 << 10
	// maxLong is how many bytes of long texts may wait, of all connections. It is less than
	// maxPending of them: however many there are, short ones are not kept waiting.
	maxLong = 16 << 20
)

// conn is one router's connection.
type conn struct {
	s       *Server
	c       net.Conn
	answers chan answer
	// gone is closed when nothing can be written any more.
	gone chan struct{}
	// pending has a token for each judgement under way.
	pending chan struct{}
	judging sync.WaitGroup
}

type answer struct {
	id uint64
	// in is the version of the request.
	in verdict.Version
	v  verdict.Verdict
	// none is set if there is no verdict.
	none bool
}

func (a answer) append(b []byte) []byte {
	if a.none {
		return a.in.AppendNoVerdict(b, a.id)
	}
	return a.in.AppendResponse(b, a.id, a.v)
}

// serve handles one router until it hangs up or ctx ends, and closes c.
func (s *Server) serve(ctx context.Context, c net.Conn) {
	s.metrics.connections.Inc()
	defer s.metrics.connections.Dec()
	k := &conn{s: s, c: c, answers: make(chan answer, maxAnswers), gone: make(chan struct{}),
		pending: make(chan struct{}, maxPending)}
	unhook := context.AfterFunc(ctx, func() {
		now := time.Now()
		_ = c.SetReadDeadline(now)
		_ = c.SetWriteDeadline(now.Add(drainTimeout)) // fail only on a closed connection
	})
	defer unhook()

	var writer sync.WaitGroup
	writer.Go(k.write)
	err := k.read()
	switch {
	case errors.Is(err, io.EOF), ctx.Err() != nil && errors.Is(err, os.ErrDeadlineExceeded):
	default:
		s.log.Warn("connection to a router ended", obs.KeyError, err)
	}
	k.judging.Wait()
	close(k.answers)
	writer.Wait()
	c.Close()
}

// read takes requests until the connection ends.
func (k *conn) read() error {
	r := verdict.NewRequestReader(k.c, int(k.s.maxText.Load()))
	for {
		id, req, err := r.Next()
		in := r.Version()
		switch {
		case err == nil:
			k.s.metrics.requests.Inc()
		case errors.Is(err, verdict.ErrTooLong):
			k.s.metrics.requests.Inc()
			k.s.metrics.tooLong.Inc()
			// Others of its template may be shorter, so this is no verdict to remember.
			k.reply(answer{id: id, in: in, none: true})
			continue
		case errors.Is(err, verdict.ErrVersion):
			// A router that knows this version asks again in it. Others take the statement
			// for a write, and must not remember that.
			k.s.metrics.requests.Inc()
			k.s.metrics.foreign.Inc()
			k.reply(answer{id: id, in: in, none: true})
			continue
		default:
			return err
		}
		if v, ok := k.s.clerk.Recall(&req); ok {
			k.reply(answer{id: id, in: in, v: v})
			continue
		}
		long, room := k.s.makeRoom(len(req.Text))
		if !room {
			k.s.metrics.unjudged.Inc()
			k.reply(answer{id: id, in: in, none: true})
			continue
		}
		select {
		case k.pending <- struct{}{}:
		case <-k.gone:
			k.s.long.Add(-long)
			return io.EOF
		}
		k.judging.Go(func() {
			defer func() { <-k.pending; k.s.long.Add(-long) }()
			v, err := k.s.clerk.Decide(&req)
			if err != nil {
				k.s.metrics.unjudged.Inc()
				k.s.log.Debug("a statement is not judged", obs.KeyDatabase, req.Database, obs.KeyError, err)
			}
			k.reply(answer{id: id, in: in, v: v, none: err != nil})
		})
	}
}

func (k *conn) reply(a answer) {
	select {
	case k.answers <- a:
	case <-k.gone:
	}
}

// write sends answers, as many at a time as there are.
func (k *conn) write() {
	defer func() {
		close(k.gone)
		k.c.Close() // ends the reader
	}()
	var b []byte
	for a := range k.answers {
		b = a.append(b[:0])
		for more := true; more; {
			select {
			case a, ok := <-k.answers:
				if ok {
					b = a.append(b)
				}
				more = ok && len(b) < maxBatch
			default:
				more = false
			}
		}
		if _, err := k.c.Write(b); err != nil {
			return
		}
	}
}

// maxBatch bounds what is written at once.
const maxBatch = 64 << 10
