package parse

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"

	pgquery "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/proto"

	"github.com/pgpilot/pgpilot/libs/obs"
)

// Parsed is what the parser made of a text.
type Parsed struct {
	Text string
	Tree *pgquery.ParseResult
	// Fingerprint is pg_query's.
	Fingerprint uint64
	// Normalized has parameters for constants. Empty unless asked for, and for long
	// texts.
	Normalized string
}

// Refused is the parser's complaint about a text.
type Refused struct{ Message string }

// Error implements error.
func (r *Refused) Error() string { return r.Message }

// Poison is the error of a text that must not be parsed again.
type Poison struct {
	// Cause is "crash", "hang" or "memory".
	Cause string
	// Detail is how the process ended and what it wrote, for the log.
	Detail string
}

// Error implements error.
func (p *Poison) Error() string { return "the text ended a parser process: " + p.Cause }

var (
	// ErrTooLarge says that the tree of a text is too large to be judged. It always
	// will be.
	ErrTooLarge = errors.New("the parse tree is too large")
	// ErrBusy says that no worker became free within Limits.Queue.
	ErrBusy = errors.New("no parser process is free")
	// ErrLost says that the worker was ended, or kept from working, from outside. The text
	// may be parsed again.
	ErrLost = errors.New("the parser process was killed, or stopped")
	// ErrClosed says that the Pool has been closed.
	ErrClosed = errors.New("the parser pool is closed")
)

// Parse has a text parsed and calls use with the result, once, if the error is
// nil. A long text has its place until use returns, so that few large trees exist
// at a time. The error is ErrTooLarge, a *Refused, a *Poison, or one of those that
// say nothing of the text: ErrBusy, ErrLost, ErrClosed.
func (p *Pool) Parse(text string, normalize bool, use func(Parsed)) error {
	patience := time.NewTimer(p.opts.Limits.Queue)
	defer patience.Stop()
	long := len(text) > ShortText
	if long {
		normalize = false // its time grows with the square of the length
		select {
		case p.long <- struct{}{}:
			defer func() { <-p.long }()
		case <-patience.C:
			p.opts.Metrics.busy.Inc()
			return ErrBusy
		case <-p.ctx.Done():
			return ErrClosed
		}
	}
	a, err := p.ask(patience, text, normalize)
	if err != nil {
		return err
	}
	switch a.outcome {
	case outcomeRefused:
		return &Refused{string(a.body)}
	case outcomeTooLarge:
		return ErrTooLarge
	}
	parsed := Parsed{Text: text, Tree: new(pgquery.ParseResult), Fingerprint: a.fingerprint, Normalized: a.normalized}
	if err := proto.Unmarshal(a.body, parsed.Tree); err != nil {
		return fmt.Errorf("%w: %w", ErrTooLarge, err) // nested deeper than protobuf allows
	}
	use(parsed)
	return nil
}

// ask gives an answer whose body is the caller's.
func (p *Pool) ask(patience *time.Timer, text string, normalize bool) (answer, error) {
	for {
		w, err := p.borrow(patience)
		if err != nil {
			return answer{}, err
		}
		a, err := w.ask(text, normalize)
		switch {
		case errors.Is(err, errUnread):
			w.end()
			p.opts.Metrics.ended("lost")
		case errors.Is(err, errIdle):
			w.end()
			return answer{}, p.lost(err.Error())
		case err != nil:
			return answer{}, p.autopsy(w, err)
		case a.outcome == outcomeMemory:
			w.end()
			return answer{}, p.poison("memory", outOfMemory)
		default:
			a.body = bytes.Clone(a.body) // the worker's next text overwrites it
			p.giveBack(w, len(text) > ShortText)
			return a, nil
		}
	}
}

func (p *Pool) borrow(patience *time.Timer) (*worker, error) {
	select {
	case w := <-p.idle:
		return w, nil
	default:
	}
	select {
	case w := <-p.idle:
		return w, nil
	case <-patience.C:
		p.opts.Metrics.busy.Inc()
		return nil, ErrBusy
	case <-p.ctx.Done():
		return nil, ErrClosed
	}
}

// lookEvery is after how many short texts a worker's memory is looked at.
const lookEvery = 512

// giveBack makes the worker idle, or ends one that has served enough.
func (p *Pool) giveBack(w *worker, long bool) {
	limits := &p.opts.Limits
	worn := w.receded || w.served >= limits.Statements
	if long || w.served%lookEvery == 0 {
		worn = worn || w.resident() > limits.Resident
	}
	switch {
	case worn:
		p.opts.Metrics.ended("worn")
		go w.end() // its keeper waits for that, the answer need not
	case p.ctx.Err() != nil:
		w.end()
	default:
		p.idle <- w
	}
}

// memoryStatistics begins what PostgreSQL writes where it cannot allocate.
const memoryStatistics = "TopMemoryContext: "

// obituary is how long a process that has closed its pipe may take to end.
const obituary = time.Second

// autopsy ends a worker that gave no answer and says what that means for the text.
func (p *Pool) autopsy(w *worker, err error) error {
	late := errors.Is(err, errLate)
	if !late {
		t := time.NewTimer(obituary)
		select {
		case <-w.gone:
		case <-t.C:
		}
		t.Stop()
	}
	byItself := w.end()
	switch detail := w.epitaph(); {
	case p.ctx.Err() != nil:
		return ErrClosed
	case late:
		return p.poison("hang", err.Error())
	case byItself && w.killed():
		return p.lost(detail)
	case strings.Contains(detail, outOfMemory), strings.Contains(detail, memoryStatistics):
		return p.poison("memory", detail)
	default:
		return p.poison("crash", detail)
	}
}

func (p *Pool) poison(cause, detail string) error {
	p.opts.Metrics.ended(cause)
	return &Poison{Cause: cause, Detail: detail}
}

// lost notes that a worker ended by another's hand, or was of no use, and not for its text.
func (p *Pool) lost(detail string) error {
	if p.ctx.Err() != nil {
		return ErrClosed
	}
	p.opts.Metrics.ended("lost")
	p.opts.Log.Warn("a parser process was killed or stopped; where memory is short, give the classifier more", obs.KeyError, detail)
	return ErrLost
}
