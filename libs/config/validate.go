package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"
)

const (
	// maxRunDir is the room for run_dir that package rundir's socket names leave.
	maxRunDir = 69
	// maxListenUnix leaves room for /.s.PGSQL.65535 in sockaddr_un's 107 bytes.
	maxListenUnix = 92
	// maxUserName is where PostgreSQL cuts names (NAMEDATALEN).
	maxUserName = 63
	// maxWeight is enough to tell servers apart.
	maxWeight = 1000
	// maxDuration keeps sums and multiples of durations far from overflowing.
	maxDuration = 720 * time.Hour
)

// validate notes values that cannot work, one by one and together. It says
// nothing about a key that is already blamed.
func (p *problems) validate(c *Config) {
	p.validateListen(c)
	p.validateBackends(c)
	p.validateUsers(c)
	p.validateOverrides(c)
	p.validateMonitor(c)
	p.validateAddresses(c)
	p.validateTLS(c)
	p.validateTCP(&c.TCP)

	p.atLeast("limits.max_clients", c.Limits.MaxClients, 1)
	p.positive("limits.login_timeout", c.Limits.LoginTimeout)

	p.oneOf("pool.mode", c.Pool.Mode, Session, Transaction)
	p.atLeast("pool.max_size", c.Pool.MaxSize, 1)
	p.atLeast("pool.primary", c.Pool.Primary, 0)
	p.atLeast("pool.replica", c.Pool.Replica, 0)
	p.atLeast("pool.min_size", c.Pool.MinSize, 0)
	if least := min(c.Pool.PrimarySize(), c.Pool.ReplicaSize()); c.Pool.MinSize > least {
		p.invalid("pool.min_size", "%d is more than a pool may have, %d: make it at most that", c.Pool.MinSize, least)
	}
	p.atLeast("backends.max_connections", c.Servers.MaxConnections, 0)
	p.atLeast("pool.max_waiters", c.Pool.MaxWaiters, 0)
	p.atLeast("pool.max_prepared_statements", c.Pool.MaxPreparedStatements, 1)
	p.positive("pool.acquire_timeout", c.Pool.AcquireTimeout)
	p.positive("pool.idle_timeout", c.Pool.IdleTimeout)

	p.notNegative("pool.max_lifetime", c.Pool.MaxLifetime, "for no limit")
	p.notNegative("drain.timeout", c.Drain.Timeout, "to end sessions at once")
	p.notNegative("failover.wait", c.Failover.Wait, "not to wait at all")

	p.positive("health.interval", c.Health.Interval)
	p.positive("health.timeout", c.Health.Timeout)
	p.atLeast("health.failure_threshold", c.Health.FailureThreshold, 1)
	p.positive("health.base_backoff", c.Health.BaseBackoff)
	p.positive("health.max_backoff", c.Health.MaxBackoff)
	p.positive("health.stale_after", c.Health.StaleAfter)
	if c.Health.MaxBackoff < c.Health.BaseBackoff {
		p.invalid("health.max_backoff", "%s is shorter than health.base_backoff, %s: make it at least as long", c.Health.MaxBackoff, c.Health.BaseBackoff)
	}
	if c.Health.StaleAfter <= c.Health.Interval {
		p.invalid("health.stale_after", "%s is not longer than health.interval, %s, so replicas would be taken for lost between two polls: make it longer", c.Health.StaleAfter, c.Health.Interval)
	}

	p.validateFencing(c)
	p.oneOf("routing.policy", c.Routing.Policy, RoundRobin, LeastInFlight, Scored)
	p.notNegative("routing.max_lag", c.Routing.MaxLag, "for no limit")
	if lag := c.Routing.MaxLag; lag > 0 && lag <= c.Health.Interval {
		p.invalid("routing.max_lag", "%s is not longer than health.interval, %s, by which a replica that lacks nothing can seem to lag, so reads of healthy replicas would go to the primary: make it at least twice as long, or lower health.interval", lag, c.Health.Interval)
	}
	p.notNegative("routing.slow_start", c.Routing.SlowStart, "for none")
	p.validateReadFunctions(c.Routing.ReadFunctions)

	p.positive("classify.timeout", c.Classify.Timeout)
	p.atLeast("classify.cache_size", c.Classify.CacheSize, 1)
	p.atLeast("classify.max_text", c.Classify.MaxText, 1)
	p.positive("classify.parser_time", c.Classify.ParserTime)
	p.atLeast("classify.parser_memory", c.Classify.ParserMemory, 64<<20)
	p.atLeast("classify.parser_tree", c.Classify.ParserTree, 4<<10)
	if c.Classify.ParserTree > 64<<20 {
		p.invalid("classify.parser_tree", "%d is above 67108864: decoded, a tree takes 20 times its size", c.Classify.ParserTree)
	}
	p.oneOf("observability.log_format", c.Observability.LogFormat, "text", "json")
}

func (p *problems) validateReadFunctions(names []string) {
	for i, name := range names {
		path := fmt.Sprintf("routing.read_functions[%d]", i)
		schema, function, ok := strings.Cut(name, ".")
		switch {
		case strings.ContainsAny(name, `"()`):
			p.invalid(path, "%q is not a plain name: write schema.name as pg_proc has it, without quotes and arguments", name)
		case !ok || schema == "" || function == "":
			p.invalid(path, "%q has no schema: write schema.name, such as public.total", name)
		}
	}
}

// invalid notes a value that cannot work, at the nearest key the file has.
func (p *problems) invalid(path, format string, args ...any) {
	if p.blames(path) {
		return
	}
	line, at := p.lines[path], path
	for line == 0 && strings.ContainsAny(at, ".[") {
		at = at[:strings.LastIndexAny(at, ".[")]
		line = p.lines[at]
	}
	p.addAt(line, path, format, args...)
}

func (p *problems) atLeast(path string, v, least int) {
	if v < least {
		p.invalid(path, "%d is too small: write at least %d", v, least)
	}
}

func (p *problems) positive(path string, d Duration) {
	if d <= 0 {
		p.invalid(path, "%s is too short: write a duration above zero", d)
	}
	if d.D() > maxDuration {
		p.invalid(path, "%s is too long: write at most %s", d, Duration(maxDuration))
	}
}

// notNegative allows 0, which means what zero says.
func (p *problems) notNegative(path string, d Duration, zero string) {
	if d < 0 {
		p.invalid(path, "%s is too short: write \"0s\" %s", d, zero)
	}
	if d.D() > maxDuration {
		p.positive(path, d)
	}
}

// oneOf refuses a word that is not among those known.
func (p *problems) oneOf(path, v string, known ...string) {
	if slices.Contains(known, v) {
		return
	}
	if near := Nearest(v, known); near != "" {
		p.invalid(path, "%q is not known: did you mean %q?", v, near)
		return
	}
	p.invalid(path, "%q is not known: use %s", v, quotedList(known))
}

func quotedList(words []string) string {
	var quoted []string
	for _, w := range words {
		quoted = append(quoted, fmt.Sprintf("%q", w))
	}
	last := len(quoted) - 1
	return strings.Join(quoted[:last], ", ") + " or " + quoted[last]
}

func (p *problems) validateListen(c *Config) {
	if c.RunDir == "" {
		p.invalid("run_dir", "name the folder for the services' sockets")
	} else if abs, err := filepath.Abs(c.RunDir); err == nil && len(abs) > maxRunDir {
		p.invalid("run_dir", "%q is too long for the sockets inside it: use a path of at most %d bytes", abs, maxRunDir)
	}
	if c.Listen == "" && c.ListenUnix == "" {
		p.invalid("listen", "nobody could connect: give listen or listen_unix")
	}
	p.listenAddress("listen", c.Listen)
	p.validateBus(&c.Bus)
	p.listenAddress("observability.metrics_addr", c.Observability.MetricsAddr)
	if c.ListenUnix != "" && !filepath.IsAbs(c.ListenUnix) {
		p.invalid("listen_unix", "%q is not an absolute path: begin it with a slash", c.ListenUnix)
	}
	if n := len(c.ListenUnix); n > maxListenUnix {
		p.invalid("listen_unix", "a path of %d bytes leaves no room for the name of the socket: use one of at most %d", n, maxListenUnix)
	}
}

// listenAddress checks host:port where an empty host means every interface and
// port 0 any free one.
func (p *problems) listenAddress(path, address string) {
	if address == "" {
		return
	}
	if strings.HasPrefix(address, "/") {
		p.invalid(path, "%q is a path: write host:port, Unix sockets go into listen_unix", address)
		return
	}
	if _, _, err := splitAddress(address); err != nil {
		p.invalid(path, "%q is not an address to listen on: %v", address, err)
	}
}

func (p *problems) validateBackends(c *Config) {
	if c.Primary.Address == "" {
		p.invalid("primary", "give the address of the server that accepts writes, as host:port")
	}
	names, addresses := map[string]string{}, map[string]string{}
	for i, b := range c.Backends() {
		if b.Address == "" {
			continue // already noted
		}
		path := "primary"
		if i > 0 {
			path = fmt.Sprintf("replicas[%d]", i-1)
		}
		namePath, addressPath := p.deepest(path, "name"), p.deepest(path, "address")
		host, port, err := b.HostPort()
		switch {
		case err != nil:
			p.invalid(addressPath, "%q is not a server's address: %v", b.Address, err)
			continue
		case host == "":
			p.invalid(addressPath, "%q has no host: write host:port", b.Address)
			continue
		case port == 0:
			p.invalid(addressPath, "0 is not a port: write a number from 1 to 65535")
			continue
		}
		switch {
		case strings.ContainsFunc(b.Name, unicode.IsControl):
			p.invalid(namePath, "%q has a control character in it: use a plain name", b.Name)
		case b.Name == "snapshot":
			p.invalid(namePath, "\"snapshot\" is a subject of the bus: use another name")
		}
		if weightPath := join(path, "weight"); p.lines[weightPath] > 0 && (b.Weight < 1 || b.Weight > maxWeight) {
			p.invalid(weightPath, "%d is not a weight: write a number from 1 to %d", b.Weight, maxWeight)
		}
		same := fmt.Sprintf("%s:%d", strings.ToLower(host), port)
		if other, taken := addresses[same]; taken {
			p.invalid(addressPath, "%q is already the address of %s: list each server once", b.Address, other)
			continue
		}
		addresses[same] = path
		if other, taken := names[b.Name]; taken {
			p.invalid(namePath, "%q is already the name of %s: give each server its own", b.Name, other)
		}
		names[b.Name] = path
	}
}

// deepest gives the key's own path if the file has it, else that of its object.
func (p *problems) deepest(path, key string) string {
	if at := join(path, key); p.lines[at] > 0 {
		return at
	}
	return path
}

func (p *problems) validateUsers(c *Config) {
	if len(c.Users) == 0 {
		p.invalid("users", "nobody could log in: list at least one user with a name and a password")
	}
	seen := map[string]int{}
	for i, u := range c.Users {
		path := fmt.Sprintf("users[%d]", i)
		namePath := p.deepest(path, "name")
		first, taken := seen[u.Name]
		switch {
		case u.Name == "":
			p.invalid(namePath, "give the user's name")
		case len(u.Name) > maxUserName:
			p.invalid(namePath, "PostgreSQL cuts names at %d bytes: use a shorter one", maxUserName)
		case strings.ContainsRune(u.Name, 0):
			p.invalid(namePath, "a name cannot hold a zero byte: remove it")
		case taken:
			p.invalid(namePath, "%q is already users[%d]: keep one of them", u.Name, first)
		default:
			seen[u.Name] = i
		}
		p.validateSources(path, u.Password, u.PasswordFile, u.PasswordEnv)
	}
}

// validateSources checks that there is one way to a password.
func (p *problems) validateSources(path, password, file, env string) {
	given := 0
	for _, s := range []string{password, file, env} {
		if s != "" {
			given++
		}
	}
	if given != 1 {
		p.invalid(path, "%v", errNoSource)
		return
	}
	if err := checkPassword(password); err != nil {
		p.invalid(join(path, "password"), "%v", err)
	}
}

func (p *problems) validateMonitor(c *Config) {
	m := c.Monitor
	if m.Database == "" {
		p.invalid("monitor.database", "name the database that pgpilot's own connections use")
	}
	_, named := p.lines["monitor.user"]
	fromUsers := slices.ContainsFunc(c.Users, func(u User) bool {
		return m == Monitor{User: u.Name, Password: u.Password, PasswordFile: u.PasswordFile, PasswordEnv: u.PasswordEnv, Database: m.Database}
	})
	switch {
	case fromUsers:
		// What is wrong with it is said there.
	case m.User == "" && (m.Password != "" || m.PasswordFile != "" || m.PasswordEnv != ""):
		p.invalid("monitor", "a password is given but no user: give monitor.user too, or leave both out to use the first of users")
	case m.User == "" && named:
		p.invalid("monitor.user", "name a user, or leave the key out to use the first of users")
	case m.User != "":
		p.validateSources("monitor", m.Password, m.PasswordFile, m.PasswordEnv)
	}
}

func (p *problems) validateFencing(c *Config) {
	p.validateMode("fencing.mode", c.Fencing.Mode)
	p.oneOf("fencing.on_primary_loss", c.Fencing.OnPrimaryLoss, Refuse, Serve)
	p.positive("fencing.wait_primary", c.Fencing.WaitPrimary)
	p.notNegative("fencing.wait", c.Fencing.Wait, "not to wait at all")
	p.positive("fencing.burst_interval", c.Fencing.BurstInterval)
	p.atLeast("fencing.bounded_ms", c.Fencing.BoundedMS, 0)
	p.validateBound(c, c.Fencing.Mode)
}

// validateAddresses refuses two uses of one address.
func (p *problems) validateAddresses(c *Config) {
	type use struct{ path, address string }
	uses := []use{{"primary", c.Primary.Address}}
	for i, b := range c.Replicas {
		uses = append(uses, use{fmt.Sprintf("replicas[%d]", i), b.Address})
	}
	uses = append(uses,
		use{"listen", c.Listen}, use{"bus.listen", c.Bus.Listen}, use{"bus.cluster.listen", c.Bus.Cluster.Listen}, use{"observability.metrics_addr", c.Observability.MetricsAddr})
	taken := map[string]string{}
	for i, u := range uses {
		host, port, err := splitAddress(u.address)
		if err != nil || port == 0 {
			continue
		}
		same := fmt.Sprintf("%s:%d", strings.ToLower(host), port)
		other, ok := taken[same]
		if !ok {
			taken[same] = u.path
		} else if i > len(c.Replicas) { // two backends are compared elsewhere
			p.invalid(u.path, "%q is already the address of %s: use another port", u.address, other)
		}
	}
}
