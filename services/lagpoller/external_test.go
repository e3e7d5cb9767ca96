package main

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/pgpilot/pgpilot/libs/bus"
	"github.com/pgpilot/pgpilot/libs/bus/bustest"
	"github.com/pgpilot/pgpilot/libs/certtest"
	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/lab"
	"github.com/pgpilot/pgpilot/libs/lab/labtest"
	"github.com/pgpilot/pgpilot/libs/lsn"
	"github.com/pgpilot/pgpilot/libs/rundir"
)

// startNATS runs a NATS server that is none of pgpilot's.
func startNATS(t *testing.T, o *server.Options) (*server.Server, *bustest.Refusals) {
	t.Helper()
	o.Host, o.NoSigs = "127.0.0.1", true
	if o.Port == 0 {
		o.Port = server.RANDOM_PORT
	}
	s, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	log := &bustest.Refusals{}
	s.SetLoggerV2(log, false, false, false)
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(patience) {
		t.Fatalf("the NATS server does not start: %v", log.All())
	}
	return s, log
}

func write600(t *testing.T, text []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "credential")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// seed makes a key and gives its seed too.
func seed(t *testing.T, make func() (nkeys.KeyPair, error)) (nkeys.KeyPair, string, []byte) {
	t.Helper()
	pair, err := make()
	if err != nil {
		t.Fatal(err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	secret, err := pair.Seed()
	if err != nil {
		t.Fatal(err)
	}
	return pair, public, secret
}

// withJWT makes a server trust an operator, and gives the credentials file of a user.
func withJWT(t *testing.T, o *server.Options) string {
	t.Helper()
	operator, operatorKey, _ := seed(t, nkeys.CreateOperator)
	account, accountKey, _ := seed(t, nkeys.CreateAccount)
	_, userKey, userSeed := seed(t, nkeys.CreateUser)
	encode := func(c jwt.Claims, by nkeys.KeyPair) string {
		text, err := c.Encode(by)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	claims, err := jwt.DecodeOperatorClaims(encode(jwt.NewOperatorClaims(operatorKey), operator))
	if err != nil {
		t.Fatal(err)
	}
	resolver := &server.MemAccResolver{}
	if err := resolver.Store(accountKey, encode(jwt.NewAccountClaims(accountKey), operator)); err != nil {
		t.Fatal(err)
	}
	o.TrustedOperators, o.AccountResolver = []*jwt.OperatorClaims{claims}, resolver
	file, err := jwt.FormatUserConfig(encode(jwt.NewUserClaims(userKey), account), userSeed)
	if err != nil {
		t.Fatal(err)
	}
	return write600(t, file)
}

// Every way to sign in at a NATS that is there anyway, encrypted and not.
func TestANATSOfTheOperators(t *testing.T) {
	c := labtest.Start(t, 1)
	t.Setenv("PGPILOT_TEST_NATS", "secret")
	authority := certtest.NewAuthority(t)
	for name, prepare := range map[string]func(*server.Options, *config.Bus){
		"password file": func(o *server.Options, b *config.Bus) {
			o.Username, o.Password = "pgpilot", "secret"
			b.User, b.PasswordFile = "pgpilot", write600(t, []byte("secret\n"))
		},
		"password in the environment": func(o *server.Options, b *config.Bus) {
			o.Username, o.Password = "pgpilot", "secret"
			b.User, b.PasswordEnv = "pgpilot", "PGPILOT_TEST_NATS"
		},
		"token": func(o *server.Options, b *config.Bus) { o.Authorization, b.PasswordEnv = "secret", "PGPILOT_TEST_NATS" },
		"nkey": func(o *server.Options, b *config.Bus) {
			_, public, secret := seed(t, nkeys.CreateUser)
			o.Nkeys, b.NKeyFile = []*server.NkeyUser{{Nkey: public}}, write600(t, secret)
		},
		"credentials file": func(o *server.Options, b *config.Bus) { b.CredsFile = withJWT(t, o) },
		"anybody":          func(_ *server.Options, b *config.Bus) { b.Anonymous = true },
	} {
		for _, encrypted := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, TLS %t", name, encrypted), func(t *testing.T) {
				var o server.Options
				var b config.Bus
				prepare(&o, &b)
				scheme := "nats"
				if encrypted {
					scheme, b.CAFile = "tls", authority.File
					o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{authority.Issue("nats", "127.0.0.1").TLS}}
					o.TLS, o.TLSTimeout = true, patience.Seconds()
				}
				s, log := startNATS(t, &o)
				b.URL = scheme + "://" + s.Addr().String()
				watch(t, c, b)
				if lines := log.All(); len(lines) != 0 {
					t.Errorf("the NATS server complains: %q", lines)
				}
			})
		}
	}
}

// watch runs a lagpoller with the bus and looks at all that it does there.
func watch(t *testing.T, c *lab.Cluster, b config.Bus) {
	t.Helper()
	cfg := configure(c)
	b.Cluster = cfg.Bus.Cluster
	cfg.Bus = b
	d := runDir(t)
	lp := start(t, d, cfg)
	if _, err := os.Stat(d.Socket(rundir.Lagpoller, "1")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it serves a bus of its own: %v", err)
	}
	e := hearAt(t, b)
	l := e.lag(t, "replica1", "the replica", caughtUp)
	e.shape(t, "the topology", func(m bus.Topology) bool { return m.Primary == "primary" })
	if snapshot, err := bus.Request[bus.LagSnapshot](t.Context(), e.nc, bus.SubjectLagSnapshot); err != nil || len(snapshot.Backends) != 2 {
		t.Errorf("snapshot: %+v, %v", snapshot, err)
	}
	sql := connect(t, c.Primary().SuperDSN())
	p := lsn.Position{Timeline: l.Incarnation.Timeline, LSN: write(t, sql)}
	wish(t, e, p)
	e.lag(t, "replica1", "what is wanted", func(l bus.Lag) bool { return l.ReplayLSN >= p.LSN })
	lp.stop()
}

// hearAt listens at a NATS as a router does.
func hearAt(t *testing.T, b config.Bus) *ear {
	t.Helper()
	return listenOn(t, runDir(t), b)
}

// The permissions that docs/bus.md asks for are enough, for all that a lagpoller does.
func TestThePermissionsOfThePageAreEnough(t *testing.T) {
	o, err := server.ProcessConfigFile(bustest.Permissions(t, "../../docs/bus.md"))
	if err != nil {
		t.Fatal(err)
	}
	s, log := startNATS(t, o)
	c := labtest.Start(t, 1)
	as := func(user string) config.Bus {
		return config.Bus{URL: "nats://" + s.Addr().String(), User: user, Password: "change me"}
	}
	cfg := configure(c)
	cfg.Bus = as("lagpoller")
	lp := start(t, runDir(t), cfg)
	e := hearAt(t, as("router"))
	e.lag(t, "replica1", "the replica", caughtUp)
	e.shape(t, "the topology", func(m bus.Topology) bool { return m.Primary == "primary" })
	if _, err := bus.Request[bus.Topology](t.Context(), e.nc, bus.SubjectTopologySnapshot); err != nil {
		t.Errorf("snapshot: %v", err)
	}
	wish(t, e, lsn.Position{Timeline: 1, LSN: 1})
	operator, err := nats.Connect(s.ClientURL(), nats.UserInfo("operator", "change me"))
	if err != nil {
		t.Fatal(err)
	}
	defer operator.Close()
	for _, subject := range []string{"$SRV.PING", "$SRV.INFO.pgpilot-lagpoller", "$SRV.STATS", bus.SubjectLagSnapshot} {
		if m, err := operator.Request(subject, nil, patience); err != nil || !json.Valid(m.Data) {
			t.Errorf("%s: %v", subject, err)
		}
	}
	lp.stop()
	if lines := log.All(); len(lines) != 0 {
		t.Errorf("the NATS server refuses: %q", lines)
	}
}

// A NATS that is away is looked for, in the whole list; meanwhile the lagpoller is not
// ready, and says why.
func TestANATSThatComesLater(t *testing.T) {
	c := labtest.Start(t, 1)
	first, log := startNATS(t, &server.Options{Username: "u", Password: "p"})
	second, _ := startNATS(t, &server.Options{Username: "u", Password: "p"})
	cfg := configure(c)
	cfg.Bus = config.Bus{URL: first.ClientURL() + "," + second.ClientURL(), User: "u", Password: "p"}
	lp := start(t, runDir(t), cfg)
	well := func() bool { return lp.health.Report().Ready }
	eventually(t, "ready at either", well)
	first.Shutdown()
	e := hearAt(t, config.Bus{URL: second.ClientURL(), User: "u", Password: "p"})
	e.lag(t, "replica1", "over the second", caughtUp)
	eventually(t, "ready at the second", well)
	second.Shutdown()
	eventually(t, "it says that there is no bus", func() bool {
		r := lp.health.Report()
		return !r.Ready && strings.Contains(r.Parts[partBus], "not reachable")
	})
	if lines := log.All(); len(lines) != 0 {
		t.Errorf("the NATS server complains: %q", lines)
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}
