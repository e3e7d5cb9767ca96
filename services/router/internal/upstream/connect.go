package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pgpilot/pgpilot/libs/dial"
	"github.com/pgpilot/pgpilot/libs/handoff"
)

// Credentials are one user's.
type Credentials struct {
	User     string
	Password string
}

// Connector makes connections to one server.
type Connector struct {
	timeout time.Duration
	means   atomic.Pointer[means]
	relays  relays
	queue   *queue
	witness *witness
	// longKeys says that the server, as the witness saw it, gives long cancel keys.
	longKeys atomic.Bool
}

// NewConnector makes a connector. monitor and db are the login that may see when
// the server's processes started; timeout bounds one attempt.
func NewConnector(s dial.Server, monitor Credentials, db string, timeout time.Duration) *Connector {
	c := &Connector{timeout: timeout, queue: newQueue()}
	c.witness = newWitness(timeout, c.dialWitness)
	c.Set(s, monitor, db)
	return c
}

// means are what connections are made with.
type means struct {
	server  dial.Server
	monitor Credentials
	db      string
}

// Set changes what connections are made with from now on; from any goroutine. The
// server's address stays what it was.
func (c *Connector) Set(s dial.Server, monitor Credentials, db string) {
	c.means.Store(&means{s, monitor, db})
}

// Connect logs in, when it is its turn, and gives the descriptor. The error is a
// *pgconn.PgError within if the server refused.
func (c *Connector) Connect(ctx context.Context, who Credentials, database string, startup []handoff.Parameter) (m *Made, err error) {
	err = c.queue.do(ctx, func() error {
		m, err = c.connect(ctx, who, database, startup)
		return err
	})
	return m, err
}

func (c *Connector) connect(ctx context.Context, who Credentials, database string, startup []handoff.Parameter) (*Made, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	params := parameters(startup)
	pg, err := c.dial(ctx, who, database, params)
	if err != nil {
		return nil, err
	}
	var beginnings *Beginnings
	var stored, recovery string
	if params["replication"] == "" {
		beginnings, stored, recovery = readBeginnings(ctx, pg)
	}
	m, err := c.take(pg)
	if err != nil {
		return nil, err
	}
	m.Beginnings, m.Stored = beginnings, stored
	m.Standby = recovery == "t" || recovery == "" && m.reportsRecovery()
	// Asked after the login: a server ends all its connections before a new run
	// starts, so the run seen now is this connection's, or the connection is dead.
	if m.Run, err = c.witness.read(ctx); err != nil {
		handoff.CloseFDs([]int{m.FD})
		return nil, unidentified{err}
	}
	return m, nil
}

// parameters gives the startup parameters by name. Of those that are one, whose names differ
// in case alone, it is the last, as with a server.
func parameters(startup []handoff.Parameter) map[string]string {
	params := make(map[string]string, len(startup))
	for _, p := range startup {
		maps.DeleteFunc(params, func(name, _ string) bool { return strings.EqualFold(name, p.Name) })
		params[p.Name] = p.Value
	}
	return params
}

// dial connects.
func (c *Connector) dial(ctx context.Context, who Credentials, database string, params map[string]string) (*dial.Conn, error) {
	return c.means.Load().server.Connect(ctx, dial.Login{User: who.User, Password: who.Password, Database: database, Parameters: params, Newest: c.longKeys.Load()})
}

// dialMonitor connects with pgpilot's own login.
func (c *Connector) dialMonitor(ctx context.Context, application string) (*dial.Conn, error) {
	m := c.means.Load()
	return c.dial(ctx, m.monitor, m.db, map[string]string{"application_name": application})
}

// take turns a connection into a bare descriptor.
func (c *Connector) take(pg *dial.Conn) (*Made, error) {
	h, err := pg.Hijack()
	if err != nil {
		return nil, fmt.Errorf("take over connection: %w", err)
	}
	if h.Frontend.ReadBufferLen() != 0 {
		h.Conn.Close()
		return nil, errors.New("take over connection: the server sent more than its greeting")
	}
	m := &Made{PID: h.PID, Secret: h.SecretKey, At: time.Now()}
	for name, value := range h.ParameterStatuses {
		m.Parameters = append(m.Parameters, handoff.Parameter{Name: name, Value: value})
	}
	slices.SortFunc(m.Parameters, func(a, b handoff.Parameter) int { return strings.Compare(a.Name, b.Name) })
	_, m.Relayed = h.Conn.(*tls.Conn)
	if m.FD, err = c.descriptor(h.Conn, pg.In); err != nil {
		h.Conn.Close()
		return nil, fmt.Errorf("take over connection: %w", err)
	}
	return m, nil
}

// descriptor gives the loop's end of a connection: a duplicate of its socket, or,
// where there is TLS, the far end of a relay.
func (c *Connector) descriptor(n net.Conn, in io.Reader) (int, error) {
	if t, ok := n.(*tls.Conn); ok {
		return c.relays.start(t, in)
	}
	sc, ok := n.(syscall.Conn)
	if !ok {
		return -1, fmt.Errorf("%T has no descriptor", n)
	}
	fd, err := handoff.Dup(sc)
	if err != nil {
		return -1, err
	}
	n.Close() // the duplicate lives on
	return fd, nil
}

// dialWitness makes the connection that says which run it is.
func (c *Connector) dialWitness(ctx context.Context) (*dial.Conn, error) {
	w, err := c.dialMonitor(ctx, "pgpilot-router")
	if err == nil {
		c.longKeys.Store(serverMajor(w) >= longKeysSince)
	}
	return w, err
}

// longKeysSince is the first version of PostgreSQL that speaks protocol 3.2. Older
// ones would only have to decline it.
const longKeysSince = 18

// serverMajor is zero where the server does not say.
func serverMajor(pg *dial.Conn) int {
	version := pg.ParameterStatus("server_version") // "18.1" or "18beta1"
	if i := strings.IndexFunc(version, func(r rune) bool { return r < '0' || r > '9' }); i >= 0 {
		version = version[:i]
	}
	n, err := strconv.Atoi(version)
	if err != nil {
		return 0
	}
	return n
}

// Close ends the witness connection and what carries TLS connections, whose
// descriptors are of no use from then on. Who is connecting gets an error.
func (c *Connector) Close() {
	c.relays.close()
	c.witness.close()
}

// ConnectMonitor makes a connection of pgpilot's own, with the monitor's login. It waits
// for no turn.
func (c *Connector) ConnectMonitor(ctx context.Context, application string) (*Made, error) {
	m := c.means.Load()
	return c.connect(ctx, m.monitor, m.db, []handoff.Parameter{{Name: "application_name", Value: application}})
}

// ConnectReplication makes one that takes replication commands as well as SQL, the
// latter by the simple protocol alone (PostgreSQL documentation, "Streaming Replication
// Protocol").
func (c *Connector) ConnectReplication(ctx context.Context, application string) (*Made, error) {
	m := c.means.Load()
	return c.connect(ctx, m.monitor, m.db, []handoff.Parameter{
		{Name: "application_name", Value: application},
		{Name: "replication", Value: "database"},
		// A standby refuses every statement under a default of "serializable".
		{Name: "default_transaction_isolation", Value: "read committed"},
	})
}
