package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
)

// Message is any payload of the bus.
type Message interface {
	Lag | LagSnapshot | Topology | Want | Verdict | Flush | VerdictSnapshot
	// check gives the payload's version and the name of a field without which the
	// message means nothing, if it is missing.
	check() (version int, missing string)
}

func (m Lag) check() (int, string)         { return m.V, required("backend", m.Backend) }
func (m LagSnapshot) check() (int, string) { return m.V, requiredList("backends", m.Backends) }
func (m Topology) check() (int, string)    { return m.V, requiredList("members", m.Members) }
func (m Want) check() (int, string)        { return m.V, required("router", m.Router) }
func (m Flush) check() (int, string)       { return m.V, required("database", m.Database) }

func (m VerdictSnapshot) check() (int, string) {
	if m.Publisher == "" {
		return m.V, "publisher"
	}
	return m.V, requiredList("verdicts", m.Verdicts)
}

func (m Verdict) check() (int, string) {
	if m.Key == "" {
		return m.V, "key"
	}
	return m.V, required("database", m.Database)
}

func required(name, value string) string {
	if value == "" {
		return name
	}
	return ""
}

// requiredList asks for the field, which may be an empty list: that is what
// tells an answer of another kind apart.
func requiredList[T any](name string, list []T) string {
	if list == nil {
		return name
	}
	return ""
}

// ErrVersion reports a payload of a version this build does not know. Fields are
// added without a new version, so a new version means another meaning.
var ErrVersion = errors.New("unknown payload version")

// Decode reads a payload. Unknown fields are skipped: they are of a newer
// publisher.
func Decode[M Message](data []byte) (M, error) {
	var m, none M
	if l, is := any(&m).(*Lag); is {
		if decodeLag(data, l) {
			return m, complete(m)
		}
		*l = Lag{}
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return none, fmt.Errorf("decode %T: %w", m, err)
	}
	return m, complete(m)
}

// Encode writes a payload, refusing one that a receiver would ignore.
func Encode[M Message](m M) ([]byte, error) {
	if err := complete(m); err != nil {
		return nil, err
	}
	b, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", m, err)
	}
	return b, nil
}

func complete[M Message](m M) error {
	v, missing := m.check()
	if v != Version {
		return fmt.Errorf("%T of version %d: %w", m, v, ErrVersion)
	}
	if missing != "" {
		return fmt.Errorf("%T without %q", m, missing)
	}
	return nil
}

// Publish sends a message to whoever listens now.
func Publish[M Message](nc *nats.Conn, subject string, m M) error {
	b, err := Encode(m)
	if err != nil {
		return err
	}
	if err := nc.Publish(subject, b); err != nil {
		return fmt.Errorf("publish on %s: %w", subject, err)
	}
	return nil
}

// Subscribe calls handle with each message on a subject, one at a time, on a
// goroutine of the subscription. Broken messages and those of another version are
// counted in metrics (which may be nil) and otherwise ignored.
func Subscribe[M Message](nc *nats.Conn, subject string, metrics *Metrics, handle func(M)) (*nats.Subscription, error) {
	sub, err := nc.Subscribe(subject, func(msg *nats.Msg) {
		if beside(subject, msg.Subject) {
			return
		}
		m, err := Decode[M](msg.Data)
		if err != nil {
			metrics.ignore(subject, err)
			return
		}
		handle(m)
	})
	if err != nil {
		return nil, fmt.Errorf("subscribe to %s: %w", subject, err)
	}
	return sub, nil
}

// ErrSilence says that nobody has answered, although there is a bus.
var ErrSilence = errors.New("nobody answers")

// Collect asks every service that answers on a subject and calls handle with each
// answer, until none has come for the length of quiet. If none has come at all, that
// is ErrSilence. The server says at once that there is nobody (ErrNoResponders) only
// while nobody listens either: whoever subscribes to a wider subject, as to
// SubjectVerdict with a star, counts as one who might answer. Broken answers are
// counted like those of Subscribe.
func Collect[M Message](ctx context.Context, nc *nats.Conn, subject string, quiet time.Duration, metrics *Metrics, handle func(M)) error {
	if !nc.IsConnected() {
		// The request would wait for the bus, and nobody's silence would mean anything.
		return fmt.Errorf("request %s: %w", subject, nats.ErrDisconnected)
	}
	inbox := nc.NewInbox()
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		return fmt.Errorf("request %s: %w", subject, err)
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only on a closed connection
	if err := nc.PublishRequest(subject, inbox, nil); err != nil {
		return fmt.Errorf("request %s: %w", subject, err)
	}
	for answers := 0; ; answers++ {
		next, cancel := context.WithTimeout(ctx, quiet)
		msg, err := sub.NextMsgWithContext(next)
		cancel()
		over := errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil
		switch {
		case err == nil:
		case over && answers > 0:
			return nil
		case over && nc.IsConnected(), errors.Is(err, nats.ErrNoResponders):
			return fmt.Errorf("request %s: %w", subject, ErrSilence)
		default:
			return fmt.Errorf("request %s: %w", subject, err)
		}
		m, err := Decode[M](msg.Data)
		if err != nil {
			metrics.ignore(subject, err)
			continue
		}
		handle(m)
	}
}

// Request asks for a snapshot. It waits until ctx ends, so ctx needs a deadline.
func Request[M Message](ctx context.Context, nc *nats.Conn, subject string) (M, error) {
	var none M
	msg, err := nc.RequestWithContext(ctx, subject, nil)
	if err != nil {
		return none, fmt.Errorf("request %s: %w", subject, err)
	}
	m, err := Decode[M](msg.Data)
	if err != nil {
		return none, fmt.Errorf("request %s: %w", subject, err)
	}
	return m, nil
}
