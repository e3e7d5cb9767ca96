package stack

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// Route is where a session's last statement ran and why: the answer to
// SHOW pgpilot.last_route.
type Route struct {
	// Backend is the server's name in the configuration, Role "primary" or "replica".
	Backend, Role, Reason string
	// Fence is what the session has to see and Replayed what the backend was known to
	// have replayed, both as timeline@LSN, empty if there is none.
	Fence, Replayed string
	// Waited is how long the statement was held for its fence.
	Waited time.Duration
}

// LastRoute asks for the route of the connection's last statement.
func LastRoute(ctx context.Context, conn *pgx.Conn) (Route, error) {
	var backend, role, reason, fence, replayed *string
	var waited int64
	err := conn.QueryRow(ctx, "SHOW pgpilot.last_route", pgx.QueryExecModeSimpleProtocol).
		Scan(&backend, &role, &reason, &fence, &replayed, &waited)
	if err != nil {
		return Route{}, fmt.Errorf("ask for the last route: %w", err)
	}
	text := func(s *string) string {
		if s == nil {
			return ""
		}
		return *s
	}
	return Route{
		Backend: text(backend), Role: text(role), Reason: text(reason), Fence: text(fence), Replayed: text(replayed),
		Waited: time.Duration(waited) * time.Microsecond,
	}, nil
}

// DSN is the URL of a database through the stack, over TCP without TLS.
func (s *Stack) DSN(user, password, database string) (string, error) {
	if s.config == nil {
		return "", fmt.Errorf("the configuration %s can not be read: repair it", s.st.Config)
	}
	host, port, err := net.SplitHostPort(s.config.Listen)
	if err != nil {
		return "", fmt.Errorf("find the address of the listener: %w", err)
	}
	if host == "" || host == "*" || net.ParseIP(host).IsUnspecified() {
		host = "localhost"
	}
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(user, password), Host: net.JoinHostPort(host, port),
		Path: "/" + database, RawQuery: "sslmode=disable",
	}
	return u.String(), nil
}

// WaitReplicas returns when every replica of the configuration, except those named,
// has served a read through the stack: routers are ready before they have heard of
// every server.
func (s *Stack) WaitReplicas(ctx context.Context, dsn string, except ...string) error {
	var missing []string
	for _, b := range s.config.Replicas {
		if !slices.Contains(except, b.Name) {
			missing = append(missing, b.Name)
		}
	}
	var last error
	err := until(ctx, func() (bool, error) {
		// A new connection each time: another router may get it.
		route, err := readOnce(ctx, dsn)
		if last = err; err == nil {
			missing = slices.DeleteFunc(missing, func(name string) bool { return name == route.Backend })
		}
		return len(missing) == 0, nil
	})
	if err != nil {
		return fmt.Errorf("wait for reads on %v: %w", missing, errors.Join(err, last))
	}
	return nil
}

func readOnce(ctx context.Context, dsn string) (Route, error) {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return Route{}, fmt.Errorf("connect through pgpilot: %w", err)
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err := conn.Exec(ctx, "SELECT 1", pgx.QueryExecModeSimpleProtocol); err != nil {
		return Route{}, fmt.Errorf("read through pgpilot: %w", err)
	}
	return LastRoute(ctx, conn)
}
