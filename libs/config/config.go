package config

import "time"

// Config is the whole configuration. Default gives every key its default; Load
// reads a file over it and validates. The tag reload:"restart" marks keys that
// cannot change while a service runs.
type Config struct {
	// RunDir is where the services' sockets live; private to one user.
	RunDir string `json:"run_dir" reload:"restart"`
	// Listen is the TCP address for clients, host:port. Empty: none.
	Listen string `json:"listen" reload:"restart"`
	// ListenUnix is a folder for PostgreSQL-style Unix sockets; the socket in it is
	// .s.PGSQL.<port of listen>, 6432 without listen. Empty: none.
	ListenUnix string `json:"listen_unix" reload:"restart"`
	// Primary is the server expected to accept writes; Replicas stream from it. In
	// the file each is "host:port" or an object.
	Primary  Backend   `json:"primary"`
	Replicas []Backend `json:"replicas"`
	// ServerTLS is how connections to servers are encrypted.
	ServerTLS ServerTLS `json:"server_tls"`
	// Users may log in, and are logged in to the servers under the same name.
	Users []User `json:"users"`
	// Databases are those whose sessions are served otherwise than all.
	Databases []Database `json:"databases"`
	// Monitor is the login for pgpilot's own connections.
	Monitor       Monitor       `json:"monitor"`
	TLS           TLS           `json:"tls"`
	TCP           TCP           `json:"tcp"`
	Limits        Limits        `json:"limits"`
	Pool          Pool          `json:"pool"`
	Servers       Servers       `json:"backends"`
	Health        Health        `json:"health"`
	Failover      Failover      `json:"failover"`
	Drain         Drain         `json:"drain"`
	Fencing       Fencing       `json:"fencing"`
	Routing       Routing       `json:"routing"`
	Classify      Classify      `json:"classify"`
	Bus           Bus           `json:"bus"`
	Observability Observability `json:"observability"`
}

// User is one login. Exactly one of Password, PasswordFile and PasswordEnv. Fencing,
// Route and Freshness hold for its sessions, as those of a Database.
type User struct {
	Name     string `json:"name"`
	Password string `json:"password"`
	// PasswordFile names a file whose first line is the password.
	PasswordFile string `json:"password_file"`
	// PasswordEnv names an environment variable that holds the password.
	PasswordEnv string   `json:"password_env"`
	Fencing     string   `json:"fencing"`
	Route       string   `json:"route"`
	Freshness   Duration `json:"freshness"`
}

// Monitor is the login with which pgpilot watches servers. It needs LOGIN,
// REPLICATION and membership in pg_read_all_stats (or pg_monitor). Without a
// user, the first entry of users is taken; without a password, that of the entry
// of users with the same name. A Config from Load has both filled in.
type Monitor struct {
	User         string `json:"user"`
	Password     string `json:"password"`
	PasswordFile string `json:"password_file"`
	PasswordEnv  string `json:"password_env"`
	// Database it connects to, "postgres" by default.
	Database string `json:"database"`
}

// Limits of the listener.
type Limits struct {
	// MaxClients is how many clients may be connected at once.
	MaxClients int `json:"max_clients"`
	// LoginTimeout bounds everything up to authentication (authentication_timeout).
	LoginTimeout Duration `json:"login_timeout"`
}

// Pool modes.
const (
	// Session lends a server connection for the client's whole session.
	Session = "session"
	// Transaction lends it for one statement or transaction.
	Transaction = "transaction"
)

// Pool sizes and waits, per host, backend, user and database.
type Pool struct {
	// Mode is Session or Transaction.
	Mode string `json:"mode"`
	// MaxSize is the most server connections, divided between the host's routers.
	MaxSize int `json:"max_size"`
	// Primary and Replica are the most connections to the primary and to each replica,
	// where they are not MaxSize; 0: they are.
	Primary int `json:"primary"`
	Replica int `json:"replica"`
	// MinSize is how many connections a pool that is used keeps open, made in the
	// background and divided between the host's routers.
	MinSize int `json:"min_size"`
	// MaxWaiters is how many sessions may queue for a connection; more are refused.
	MaxWaiters int `json:"max_waiters"`
	// AcquireTimeout is the longest wait for a connection.
	AcquireTimeout Duration `json:"acquire_timeout"`
	// IdleTimeout closes a server connection unused for this long.
	IdleTimeout Duration `json:"idle_timeout"`
	// MaxLifetime closes a server connection this long after it was made, once nobody
	// uses it. 0: never.
	MaxLifetime Duration `json:"max_lifetime"`
	// MaxPreparedStatements is how many prepared statements a server connection
	// keeps; the one unused for longest makes room for another.
	MaxPreparedStatements int `json:"max_prepared_statements"`
}

// Servers are the limits of each server.
type Servers struct {
	// MaxConnections is the most connections of this host's routers to one server, of
	// all its pools together, pgpilot's own not counted. 0: no limit but the pools'.
	MaxConnections int `json:"max_connections"`
}

// Drain says how a router stops.
type Drain struct {
	// Timeout is how long its sessions may take to get to a point at which they can go to
	// another router.
	Timeout Duration `json:"timeout"`
}

// Failover says what happens while there is no primary.
type Failover struct {
	// Wait is how long a statement that needs the primary waits for one while it is
	// lost or in doubt.
	Wait Duration `json:"wait"`
}

// Health of servers as the lagpoller judges it.
type Health struct {
	// Interval between polls of a server when nothing waits for news.
	Interval Duration `json:"interval"`
	// Timeout of one poll.
	Timeout Duration `json:"timeout"`
	// FailureThreshold is how many polls in a row must fail to call a server ill.
	FailureThreshold int `json:"failure_threshold"`
	// BaseBackoff and MaxBackoff bound the wait before an ill server is tried again.
	BaseBackoff Duration `json:"base_backoff"`
	MaxBackoff  Duration `json:"max_backoff"`
	// StaleAfter is how long the lagpoller may be silent before routers take a
	// replica's state for unknown. Three intervals, but at least the default, where
	// it is not given.
	StaleAfter Duration `json:"stale_after"`
}

// Fencing modes.
const (
	// Relaxed reads on any healthy replica.
	Relaxed = "relaxed"
	// Bounded reads where what is shown is no older than Fencing.BoundedMS.
	Bounded = "bounded"
	// Strict reads only where the session's own writes are provably replayed.
	Strict = "strict"
	// Causal is Strict, and a session never sees an older state than it has seen.
	Causal = "causal"
	// Linear sees every write that was acknowledged to anybody before the read.
	Linear = "linear"
)

// What becomes of a read that no replica can serve while the primary cannot be reached.
const (
	// Refuse gives an error.
	Refuse = "error"
	// Serve reads on a replica what may be older than the mode promises.
	Serve = "serve"
)

// Fencing of reads.
type Fencing struct {
	// Mode is Relaxed, Bounded, Strict, Causal or Linear.
	Mode string `json:"mode"`
	// Wait is the longest a read waits for its fence to be settled before it goes
	// to the primary.
	Wait Duration `json:"wait"`
	// BurstInterval is the pause between polls of a replica while a router waits
	// for a position.
	BurstInterval Duration `json:"burst_interval"`
	// BoundedMS is how stale, in milliseconds, a read may be in the mode Bounded.
	BoundedMS int `json:"bounded_ms"`
	// WaitPrimary is the longest wait, in the modes Causal and Linear, until the primary
	// shows what replicas have shown.
	WaitPrimary Duration `json:"wait_primary"`
	// OnPrimaryLoss is Refuse or Serve.
	OnPrimaryLoss string `json:"on_primary_loss"`
}

// Routing policies.
const (
	RoundRobin    = "round-robin"
	LeastInFlight = "least-in-flight"
	Scored        = "scored"
)

// Routing of reads.
type Routing struct {
	// Policy is RoundRobin, LeastInFlight or Scored.
	Policy string `json:"policy"`
	// MaxLag excludes replicas from reads that lag more. 0: none. It is longer than
	// Health.Interval: a replica that lacks nothing can seem to lag by that.
	MaxLag Duration `json:"max_lag"`
	// SlowStart is the time within which a replica that has come back or is new gets
	// its whole share of the reads.
	SlowStart Duration `json:"slow_start"`
	// AllToPrimary sends everything to the primary: the emergency switch.
	AllToPrimary bool `json:"all_to_primary"`
	// LazyBegin answers BEGIN before a server knows of it: the server is told with the
	// transaction's first statement.
	LazyBegin bool `json:"lazy_begin"`
	// ReadOnlyTransactions has transactions that are read only run on replicas, if LazyBegin
	// is on.
	ReadOnlyTransactions bool `json:"read_only_transactions"`
	// ReadFunctions may run on a replica because somebody who knows them says so, each
	// as schema.name, in every database and for all its overloads.
	ReadFunctions []string `json:"read_functions"`
}

// Classify is how routers ask classifiers.
type Classify struct {
	// Timeout after which an unanswered statement is treated as a write.
	Timeout Duration `json:"timeout"`
	// CacheSize is the number of verdicts kept by each router and classifier.
	CacheSize int `json:"cache_size"`
	// MaxText is the longest statement text, in bytes, that is classified; a longer
	// one is a write.
	MaxText int `json:"max_text"`
	// ParserTime is the processor time that parsing one text may take. One that takes
	// longer is a write, and is not parsed again for a day.
	ParserTime Duration `json:"parser_time" reload:"restart"`
	// ParserMemory is the memory that a parser process may use beyond what it has at
	// its start, in bytes.
	ParserMemory int `json:"parser_memory" reload:"restart"`
	// ParserTree is the largest parse tree that is judged, in bytes.
	ParserTree int `json:"parser_tree" reload:"restart"`
}

// Observability of the services.
type Observability struct {
	// MetricsAddr is the TCP address where the listener relays every service's
	// metrics and health. Empty: none.
	MetricsAddr string `json:"metrics_addr" reload:"restart"`
	// Pprof serves /debug/pprof on each service's HTTP socket and the relay.
	Pprof bool `json:"pprof" reload:"restart"`
	// LogFormat is "text" or "json".
	LogFormat string `json:"log_format" reload:"restart"`
}

// Default gives the configuration of an empty file.
func Default() *Config {
	return &Config{
		RunDir:        "/run/pgpilot",
		Listen:        "127.0.0.1:6432",
		Replicas:      []Backend{}, // not nil: an encoded Config must be a file, where a list is never null
		Users:         []User{},
		Databases:     []Database{},
		Monitor:       Monitor{Database: "postgres"},
		ServerTLS:     ServerTLS{Mode: SSLPrefer},
		TLS:           TLS{Mode: TLSAllow, ClientCert: NoClientCert, MinProtocolVersion: TLSv12},
		TCP:           TCP{KeepalivesIdle: Duration(time.Minute), KeepalivesInterval: Duration(10 * time.Second), KeepalivesCount: 6},
		Limits:        Limits{MaxClients: 10000, LoginTimeout: Duration(60 * time.Second)},
		Pool:          Pool{Mode: Transaction, MaxSize: 10, MaxWaiters: 1000, AcquireTimeout: Duration(5 * time.Second), IdleTimeout: Duration(5 * time.Minute), MaxLifetime: Duration(time.Hour), MaxPreparedStatements: 200},
		Health:        Health{Interval: Duration(time.Second), Timeout: Duration(2 * time.Second), FailureThreshold: 3, BaseBackoff: Duration(time.Second), MaxBackoff: Duration(30 * time.Second), StaleAfter: Duration(3 * time.Second)},
		Failover:      Failover{Wait: Duration(10 * time.Second)},
		Drain:         Drain{Timeout: Duration(10 * time.Second)},
		Fencing:       Fencing{Mode: Strict, Wait: Duration(2 * time.Millisecond), BurstInterval: Duration(time.Millisecond), WaitPrimary: Duration(2 * time.Second), OnPrimaryLoss: Refuse},
		Routing:       Routing{Policy: LeastInFlight, SlowStart: Duration(10 * time.Second), LazyBegin: true, ReadOnlyTransactions: true, ReadFunctions: []string{}},
		Classify:      Classify{Timeout: Duration(250 * time.Millisecond), CacheSize: 20000, MaxText: 1 << 20, ParserTime: Duration(time.Second), ParserMemory: 384 << 20, ParserTree: 4 << 20},
		Bus:           Bus{Listen: "127.0.0.1:4222", Cluster: BusCluster{Routes: []string{}}},
		Observability: Observability{LogFormat: "text"},
	}
}

// Backends lists the primary and the replicas, in the file's order.
func (c *Config) Backends() []Backend {
	return append([]Backend{c.Primary}, c.Replicas...)
}

// PrimarySize is the most connections of a pool to the primary.
func (p *Pool) PrimarySize() int {
	if p.Primary > 0 {
		return p.Primary
	}
	return p.MaxSize
}

// ReplicaSize is the most connections of a pool to a replica.
func (p *Pool) ReplicaSize() int {
	if p.Replica > 0 {
		return p.Replica
	}
	return p.MaxSize
}
