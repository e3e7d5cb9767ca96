package workload

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// Workload is what every client does over and over.
type Workload struct {
	Name string
	// Title says it in a few words, for reports.
	Title string
	// Reconnects: each transaction has a connection of its own.
	Reconnects bool
	// statements are all that may be sent.
	statements []*Statement
	// transaction chooses the next one.
	transaction func(t *Transaction, c *client)
}

// client is what chooses: its random numbers, its number, and how often it has
// chosen.
type client struct {
	random *rand.Rand
	number int
	turn   int64
	rows   int64 // of pgbench_accounts
}

// Transaction is a list of statements, sent one after the other, each after the answer
// to the one before.
type Transaction struct {
	steps []step
}

type step struct {
	statement *Statement
	args      [maxArgs]int64
	// want is the value that the first column of the answer's row must have, if checks.
	want   int64
	checks bool
}

func (t *Transaction) add(s *Statement, args ...int64) *step {
	t.steps = append(t.steps, step{statement: s})
	last := &t.steps[len(t.steps)-1]
	copy(last.args[:], args)
	return last
}

// Find gives a workload by name.
func Find(name string) (*Workload, error) {
	all := All()
	i := slices.IndexFunc(all, func(w *Workload) bool { return w.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("there is no workload %q", name)
	}
	return all[i], nil
}

// Prepare lists the statements to prepare when a client connects, as name and text.
func (w *Workload) Prepare(p Protocol, do func(name, text string) error) error {
	if !p.Prepares() {
		return nil
	}
	for _, s := range w.statements {
		if err := do(s.name, s.text); err != nil {
			return err
		}
	}
	return nil
}

// Request is what a client sends before it waits for the answers to all of it.
type Request struct {
	// Bytes are valid until the next call of the script.
	Bytes []byte
	// Statements is how many are in it, Ready how many ReadyForQuery end its answer.
	Statements, Ready int
	// Want is what the first column of the first row of the answer must say, if Checks.
	Want   int64
	Checks bool
	// Writes says that a client who chooses between servers must send it to the primary:
	// a statement that writes, or one of a transaction block.
	Writes bool
	// Last says that the answer ends a transaction.
	Last bool
}

// Script is one client at work.
type Script struct {
	w        *Workload
	protocol Protocol
	client   client
	current  Transaction
	next     int
	buf      []byte
}

// Script makes the script of the client with a number. Equal arguments give equal
// scripts. rows is how many rows pgbench_accounts has.
func (w *Workload) Script(p Protocol, number int, seed uint64, rows int64) *Script {
	return &Script{w: w, protocol: p, client: client{
		random: rand.New(rand.NewPCG(seed, uint64(number))), number: number, rows: rows,
	}}
}

// Next gives the next request.
func (s *Script) Next() Request {
	if s.next == len(s.current.steps) {
		s.current.steps, s.next = s.current.steps[:0], 0
		s.client.turn++
		s.w.transaction(&s.current, &s.client)
	}
	s.buf = s.buf[:0]
	if s.protocol == Pipelined {
		return s.rest()
	}
	st := &s.current.steps[s.next]
	s.next++
	s.buf = s.protocol.appendSync(s.protocol.appendStatement(s.buf, st.statement, st.args[:]))
	return Request{
		Bytes: s.buf, Statements: 1, Ready: 1, Want: st.want, Checks: st.checks,
		Writes: st.statement.writes || s.current.steps[0].statement.begins,
		Last:   s.next == len(s.current.steps),
	}
}

// rest gives the whole transaction in one request.
func (s *Script) rest() Request {
	n, writes := len(s.current.steps), false
	for i := range s.current.steps {
		st := &s.current.steps[i]
		s.buf = s.protocol.appendStatement(s.buf, st.statement, st.args[:])
		writes = writes || st.statement.writes
	}
	s.next = n
	s.buf = s.protocol.appendSync(s.buf)
	return Request{Bytes: s.buf, Statements: n, Ready: 1, Writes: writes, Last: true}
}
