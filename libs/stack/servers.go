package stack

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/pgpilot/pgpilot/libs/bus"
)

// Servers gives what the lagpoller knows of every PostgreSQL server of the
// configuration. It must be ready, so that it has asked each at least once.
func (s *Stack) Servers(ctx context.Context) ([]bus.Lag, error) {
	dir, err := s.runDir()
	if err != nil {
		return nil, fmt.Errorf("ask for the servers: %w", err)
	}
	if dir == nil {
		return nil, fmt.Errorf("ask for the servers: nothing runs in %s", s.st.RunDir)
	}
	o := bus.Options{Name: "stack", Log: slog.New(slog.DiscardHandler)}
	if s.config != nil { // one that is broken by now was read by the services when it was not
		o.Bus = s.config.Bus
	}
	nc, err := bus.Connect(ctx, dir, o)
	if err != nil {
		return nil, fmt.Errorf("ask for the servers: %w", err)
	}
	defer nc.Close()
	var snapshot bus.LagSnapshot
	err = until(ctx, func() (bool, error) {
		snapshot, err = bus.Request[bus.LagSnapshot](ctx, nc, bus.SubjectLagSnapshot)
		if err != nil && bus.Offline(err) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return nil, fmt.Errorf("ask for the servers: %w", err)
	}
	return snapshot.Backends, nil
}
