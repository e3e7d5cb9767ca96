package breaker

import "time"

// State of a breaker; its number is the metric's value.
type State uint8

// States.
const (
	// Closed: the server is used.
	Closed State = iota
	// HalfOpen: a probe is under way.
	HalfOpen
	// Open: nothing is sent there.
	Open
)

// String names the state.
func (s State) String() string { return [...]string{"closed", "half-open", "open"}[s] }

const (
	// losses connections lost within lossSpan open the breaker.
	losses   = 3
	lossSpan = time.Second
	// jitter is by how much a wait may be longer or shorter than the doubling says.
	jitter = 0.2
)

// Settings bound the waits.
type Settings struct {
	// Base is the first wait, Max the longest.
	Base, Max time.Duration
	// Random gives numbers from 0 up to 1.
	Random func() float64
}

// Breaker is one server's. The zero value is closed.
type Breaker struct {
	state State
	until time.Time
	// failures is how many there were in a row.
	failures int
	// lost counts connections lost since first.
	lost  int
	first time.Time
}

// State gives the state.
func (b *Breaker) State() State { return b.state }

// Usable reports whether clients' statements may go to the server.
func (b *Breaker) Usable() bool { return b.state == Closed }

// Until gives the end of the wait while the breaker is open.
func (b *Breaker) Until() time.Time { return b.until }

// Failed notes that the server refused a connection or did not answer in time, and
// reports whether that opened the breaker. While it is open, what fails was begun
// before: it does not prolong the wait.
func (b *Breaker) Failed(s *Settings, now time.Time) (opened bool) {
	if b.state == Open {
		return false
	}
	opened = b.state == Closed
	wait := min(s.Base<<min(b.failures, 20), s.Max)
	if wait <= 0 {
		wait = s.Max
	}
	wait += time.Duration((2*s.Random() - 1) * jitter * float64(wait))
	b.failures++
	b.state, b.until, b.lost = Open, now.Add(wait), 0
	return opened
}

// Lost notes that the server closed a connection, or reset it, and reports whether
// that opened the breaker. One such loss may have many reasons; several at a time
// are worth a probe.
func (b *Breaker) Lost(s *Settings, now time.Time) (opened bool) {
	if b.state != Closed {
		return false
	}
	if b.lost == 0 || now.Sub(b.first) > lossSpan {
		b.lost, b.first = 0, now
	}
	if b.lost++; b.lost < losses {
		return false
	}
	return b.Failed(s, now)
}

// Probe reports whether a probe is to be made now; it is then under way, and
// Succeeded or Failed is called with its outcome.
func (b *Breaker) Probe(now time.Time) bool {
	if b.state != Open || now.Before(b.until) {
		return false
	}
	b.state = HalfOpen
	return true
}

// Succeeded notes that the server took a connection.
func (b *Breaker) Succeeded() { *b = Breaker{} }
