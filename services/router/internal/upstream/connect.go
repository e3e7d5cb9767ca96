package upstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgpilot/pgpilot/libs/handoff"
)

// Target is a server to connect to.
type Target struct {
	// Host is a name, an address, or the folder of a Unix socket.
	Host string
	Port uint16
}

// Credentials are one user's.
type Credentials struct {
	User     string
	Password string
}

// Connector makes connections to one server.
type Connector struct {
	target  Target
	timeout time.Duration
	login   atomic.Pointer[monitorLogin]

	mu      sync.Mutex
	witness *pgconn.PgConn // guarded by mu; nil when there is none
}

// monitorLogin is pgpilot's own login.
type monitorLogin struct {
	Credentials
	database string
}

// NewConnector makes a connector. monitor and db are the login that may see when
// the server's processes started; timeout bounds one attempt.
func NewConnector(t Target, monitor Credentials, db string, timeout time.Duration) *Connector {
	c := &Connector{target: t, timeout: timeout}
	c.SetMonitor(monitor, db)
	return c
}

// SetMonitor changes the login of connections made from now on; from any goroutine.
func (c *Connector) SetMonitor(monitor Credentials, db string) {
	c.login.Store(&monitorLogin{monitor, db})
}

// dialMonitor connects with pgpilot's own login.
func (c *Connector) dialMonitor(ctx context.Context, application string) (*pgconn.PgConn, error) {
	l := c.login.Load()
	return c.dial(ctx, l.Credentials, l.database, map[string]string{"application_name": application})
}

// Connect logs in and gives the descriptor. The error is a *pgconn.PgError within
// if the server refused.
func (c *Connector) Connect(ctx context.Context, who Credentials, database string, startup []handoff.Parameter) (*Made, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	params := make(map[string]string, len(startup))
	for _, p := range startup {
		params[p.Name] = p.Value
	}
	pg, err := c.dial(ctx, who, database, params)
	if err != nil {
		return nil, err
	}
	m, err := take(pg)
	if err != nil {
		return nil, err
	}
	// Asked after the login: a server ends all its connections before a new run
	// starts, so the run seen now is this connection's, or the connection is dead.
	if err := c.identify(ctx, m); err != nil {
		handoff.CloseFDs([]int{m.FD})
		return nil, err
	}
	return m, nil
}

// settings name everything that pgconn would otherwise take from the PG… variables
// of the process's environment, which are not the client's.
const settings = "host=localhost port=5432 user=pgpilot dbname=postgres password=none passfile='' connect_timeout=0" +
	" sslmode=disable sslcert='' sslkey='' sslrootcert='' sslcertmode=disable sslnegotiation=postgres" +
	" target_session_attrs=any channel_binding=prefer require_auth='' min_protocol_version=3.0 max_protocol_version=3.0"

// dial connects.
func (c *Connector) dial(ctx context.Context, who Credentials, database string, params map[string]string) (*pgconn.PgConn, error) {
	cfg, err := pgconn.ParseConfig(settings)
	if err != nil {
		return nil, fmt.Errorf("prepare connection: unset the environment variable PGSERVICE: %w", err)
	}
	cfg.Host, cfg.Port = c.target.Host, c.target.Port
	cfg.User, cfg.Password, cfg.Database = who.User, who.Password, database
	cfg.RuntimeParams = params
	cfg.Fallbacks = nil
	pg, err := pgconn.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("open server connection: %w", err)
	}
	return pg, nil
}

// take turns a connection into a bare descriptor.
func take(pg *pgconn.PgConn) (*Made, error) {
	h, err := pg.Hijack()
	if err != nil {
		return nil, fmt.Errorf("take over connection: %w", err)
	}
	defer h.Conn.Close() // the duplicate lives on
	if h.Frontend.ReadBufferLen() != 0 {
		return nil, errors.New("take over connection: the server sent more than its greeting")
	}
	sc, ok := h.Conn.(syscall.Conn)
	if !ok {
		return nil, fmt.Errorf("take over connection: %T has no descriptor", h.Conn)
	}
	m := &Made{PID: h.PID, Secret: h.SecretKey, At: time.Now()}
	for name, value := range h.ParameterStatuses {
		m.Parameters = append(m.Parameters, handoff.Parameter{Name: name, Value: value})
	}
	slices.SortFunc(m.Parameters, func(a, b handoff.Parameter) int { return strings.Compare(a.Name, b.Name) })
	if m.FD, err = handoff.Dup(sc); err != nil {
		return nil, err
	}
	return m, nil
}

// identify reads the server's run over the witness connection, which is made
// when it is missing or has died.
func (c *Connector) identify(ctx context.Context, m *Made) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for attempt := 0; ; attempt++ {
		fresh := c.witness == nil
		if fresh {
			w, err := c.dialMonitor(ctx, "pgpilot-router")
			if err != nil {
				return fmt.Errorf("read the server's run: %w", err)
			}
			c.witness = w
		}
		run, err := readRun(ctx, c.witness)
		if err == nil {
			m.Run = run
			return nil
		}
		_ = c.witness.Close(context.WithoutCancel(ctx))
		c.witness = nil
		if fresh || attempt > 0 {
			return fmt.Errorf("read the server's run: %w", err)
		}
	}
}

// Close ends the witness connection.
func (c *Connector) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.witness != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = c.witness.Close(ctx)
		c.witness = nil
	}
}

// ConnectMonitor makes a connection of pgpilot's own, with the monitor's login.
func (c *Connector) ConnectMonitor(ctx context.Context, application string) (*Made, error) {
	l := c.login.Load()
	return c.Connect(ctx, l.Credentials, l.database, []handoff.Parameter{{Name: "application_name", Value: application}})
}
