package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pgpilot/pgpilot/libs/bus"
)

// feed listens to lag events on the bus's TCP address, as any program may without a
// password, and shows those that are news.
type feed struct {
	conn    *nats.Conn
	news    *nats.Subscription
	ended   chan struct{} // closed when listen has returned
	say     *narrator
	refused chan error
	subject string

	mu    sync.Mutex
	shown map[string]string // last line by backend
	lag   map[string]int64  // last known lag by backend, in bytes
}

func openFeed(address string, say *narrator) (*feed, error) {
	f := &feed{say: say, ended: make(chan struct{}), shown: map[string]string{}, lag: map[string]int64{}, refused: make(chan error, 1), subject: bus.SubjectLag + ">"}
	conn, err := nats.Connect("nats://"+address, nats.Name("pgpilot demo"),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			select {
			case f.refused <- err:
			default:
			}
		}))
	if err != nil {
		return nil, fmt.Errorf("connect to the bus at %s: %w", address, err)
	}
	f.conn = conn
	if f.news, err = conn.SubscribeSync(f.subject); err != nil {
		conn.Close()
		return nil, fmt.Errorf("subscribe to lag events: %w", err)
	}
	go f.listen()
	return f, nil
}

// close ends listening and waits for its end. It may be called again.
func (f *feed) close() {
	f.conn.Close()
	<-f.ended
}

// listen goes on until the connection is closed.
func (f *feed) listen() {
	defer close(f.ended)
	for {
		m, err := f.news.NextMsgWithContext(context.Background())
		switch {
		case err == nil:
			f.hear(m)
		case !errors.Is(err, nats.ErrSlowConsumer): // which only says that some were lost
			return
		}
	}
}

func (f *feed) hear(m *nats.Msg) {
	var lag bus.Lag
	if err := json.Unmarshal(m.Data, &lag); err != nil {
		f.say.event("an event that is no lag: " + err.Error())
		return
	}
	line := describe(lag)
	f.mu.Lock()
	f.lag[lag.Backend] = lag.LagBytes
	news := f.shown[lag.Backend] != line
	f.shown[lag.Backend] = line
	f.mu.Unlock()
	if news {
		f.say.event(line)
	}
}

// describe leaves out what changes without anything having happened.
func describe(lag bus.Lag) string {
	switch {
	case !lag.Healthy:
		return lag.Backend + " does not answer: " + lag.Error
	case lag.Role == bus.Primary:
		return fmt.Sprintf("%s has written up to %s", lag.Backend, lag.InsertLSN)
	case lag.LagBytes < 0:
		return fmt.Sprintf("%s has replayed up to %s", lag.Backend, lag.ReplayLSN)
	default:
		return fmt.Sprintf("%s has replayed up to %s, %d bytes behind", lag.Backend, lag.ReplayLSN, lag.LagBytes)
	}
}

// behind reports whether the last event about a backend said that it lags.
func (f *feed) behind(backend string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lag[backend] > 0
}

// forge tries to publish a lag event and returns the bus's refusal.
func (f *feed) forge(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := f.conn.Publish(bus.SubjectLag+"replica1", []byte("{}")); err != nil {
		return "", fmt.Errorf("publish on the bus: %w", err)
	}
	if err := f.conn.FlushWithContext(ctx); err != nil && !errors.Is(err, nats.ErrPermissionViolation) {
		return "", fmt.Errorf("publish on the bus: %w", err)
	}
	select {
	case err := <-f.refused:
		return err.Error(), nil
	case <-ctx.Done():
		return "", errors.New("the bus let a stranger publish a lag event")
	}
}
