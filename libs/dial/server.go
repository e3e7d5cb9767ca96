package dial

import (
	"context"
	"fmt"
	"io"
	"net"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/tcp"
)

// Server is a server and how it is reached. It is safe for concurrent use.
type Server struct {
	// Host is a name, an address, or the folder of a Unix socket.
	Host string
	Port uint16
	// TLS and TCP are the configuration's; without a mode there is no TLS.
	TLS config.ServerTLS
	TCP config.TCP
}

// Of gives a configured server. It fails if the files of server_tls cannot be used.
func Of(b config.Backend, t config.ServerTLS, c config.TCP) (Server, error) {
	host, port, err := b.HostPort()
	if err != nil {
		return Server{}, fmt.Errorf("read the address of %s: %w", b.Name, err)
	}
	s := Server{Host: host, Port: port, TLS: t, TCP: c}
	if _, err := s.encryption(); err != nil {
		return Server{}, err
	}
	return s, nil
}

// Login is who connects to what.
type Login struct {
	User     string
	Password string
	Database string
	// Parameters are the startup parameters.
	Parameters map[string]string
	// Newest asks for the newest protocol version, 3.2, whose cancel keys cannot be
	// guessed. Servers before 18 answer with their own; not everything that speaks
	// PostgreSQL's protocol does.
	Newest bool
}

// settings name everything that pgconn would otherwise take from the environment.
const settings = "host=localhost port=5432 user=pgpilot dbname=postgres password=none passfile='' connect_timeout=0" +
	" sslmode=disable sslcert='' sslkey='' sslrootcert='' sslcertmode=disable sslnegotiation=postgres" +
	" target_session_attrs=any channel_binding=prefer require_auth='' min_protocol_version=3.0 max_protocol_version=3.0"

// Attempt calls connect with a configuration for pgconn, and, where "prefer" allows,
// once more for a connection without encryption.
func (s Server) Attempt(l Login, connect func(*pgconn.Config) error) error {
	secure, err := s.encryption()
	if err != nil {
		return err
	}
	n := &negotiation{secure: secure, optional: s.TLS.Mode == config.SSLPrefer}
	cfg, err := s.config(l, n)
	if err != nil {
		return err
	}
	err = connect(cfg)
	if err == nil || !n.optional || !n.blames(err) {
		return err
	}
	n = &negotiation{}
	if cfg, err = s.config(l, n); err != nil {
		return err
	}
	return connect(cfg)
}

func (s Server) config(l Login, n *negotiation) (*pgconn.Config, error) {
	cfg, err := pgconn.ParseConfig(settings)
	if err != nil {
		return nil, fmt.Errorf("prepare connection: unset the environment variable PGSERVICE: %w", err)
	}
	cfg.Host, cfg.Port = s.Host, s.Port
	cfg.User, cfg.Password, cfg.Database = l.User, l.Password, l.Database
	cfg.RuntimeParams = l.Parameters
	if cfg.RuntimeParams == nil {
		cfg.RuntimeParams = map[string]string{}
	}
	cfg.Fallbacks = nil
	if l.Newest {
		cfg.MaxProtocolVersion = "3.2"
	}
	cfg.DialFunc = tcp.Dialer(s.TCP).DialContext
	cfg.AfterNetConnect = func(ctx context.Context, _ *pgconn.Config, c net.Conn) (net.Conn, error) {
		return n.open(ctx, c)
	}
	return cfg, nil
}

// Conn is a connection that is logged in.
type Conn struct {
	*pgconn.PgConn
	// In is where what the server sends is to be read after a Hijack. When a write takes
	// long, pgconn reads in the background, and such a read may still be waiting: it would take
	// the first bytes away from whoever read the net.Conn itself.
	In io.Reader
}

// Connect logs in. The error is a *pgconn.PgError within if the server refused.
func (s Server) Connect(ctx context.Context, l Login) (*Conn, error) {
	var c Conn
	err := s.Attempt(l, func(cfg *pgconn.Config) (err error) {
		build := cfg.BuildFrontend
		cfg.BuildFrontend = func(r io.Reader, w io.Writer) *pgproto3.Frontend {
			c.In = r
			return build(r, w)
		}
		c.PgConn, err = pgconn.ConnectConfig(ctx, cfg)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open server connection: %w", err)
	}
	return &c, nil
}
