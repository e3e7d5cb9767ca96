package clients

import (
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/pgpilot/pgpilot/libs/certtest"
	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/lab"
	"github.com/pgpilot/pgpilot/libs/stack/stacktest"
)

// patience bounds every wait. It is generous: a loaded machine must not fail a test
// that would pass.
const patience = 90 * time.Second

// stage is what a program runs against: a server itself, or pgpilot in front of it.
type stage struct {
	name string
	port int
	// pilot is nil for the server itself.
	pilot *stacktest.Pgpilot
	// secure is what programs get in their environment to use TLS, or not to.
	secure []string
}

// stages are the server itself, then pgpilot in both pool modes, one of them over TLS,
// all on one cluster.
func stages(t *testing.T, cluster *lab.Cluster) []stage {
	t.Helper()
	ca := certtest.NewAuthority(t)
	pair := ca.Issue("pgpilot", "127.0.0.1")
	plain := []string{"PGSSLMODE=disable"}
	all := []stage{{name: "direct", port: cluster.Primary().Port, secure: plain}}
	for _, mode := range []string{config.Transaction, config.Session} {
		secure := plain
		if mode == config.Session {
			secure = []string{"PGSSLMODE=require", "NODE_EXTRA_CA_CERTS=" + ca.File} // Node.js verifies where libpq does not
		}
		pilot := stacktest.Start(t, stacktest.Options{Lab: cluster, Configure: func(c *config.Config) {
			c.Pool.Mode, c.Pool.MaxSize = mode, 20
			c.Classify.Timeout = config.Duration(20 * time.Second) // a busy machine must not have reads taken for writes
			c.TLS.CertFile, c.TLS.KeyFile = pair.CertFile, pair.KeyFile
		}})
		_, text, err := net.SplitHostPort(pilot.Config().Listen)
		if err != nil {
			t.Fatal(err)
		}
		port, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, stage{name: mode, port: port, pilot: pilot, secure: secure})
	}
	return all
}

// page is this stage's metrics page.
func (s stage) page(t *testing.T) string {
	t.Helper()
	client := http.Client{Timeout: patience}
	defer client.CloseIdleConnections()
	resp, err := client.Get("http://" + s.pilot.Config().Observability.MetricsAddr + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("read the metrics page: %v", err)
	}
	return string(body)
}

// decisions are the lines of the page that say how much ran where, and why.
func (s stage) decisions(t *testing.T) string {
	t.Helper()
	var lines strings.Builder
	for line := range strings.Lines(s.page(t)) {
		if strings.HasPrefix(line, "pgpilot_routing_decisions_total") && !strings.HasSuffix(line, " 0\n") {
			lines.WriteString(line)
		}
	}
	return lines.String()
}

// metric sums the series of a counter or gauge of this stage's pgpilot that have all
// these labels.
func (s stage) metric(t *testing.T, name string, labels map[string]string) float64 {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(s.page(t)))
	if err != nil {
		t.Fatalf("read the metrics page: %v", err)
	}
	var sum float64
	for _, m := range families[name].GetMetric() {
		matching := 0
		for _, l := range m.GetLabel() {
			if want, asked := labels[l.GetName()]; asked && want == l.GetValue() {
				matching++
			}
		}
		if matching == len(labels) {
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return sum
}

// replicaReads counts the statements that ran on replicas because they read.
func (s stage) replicaReads(t *testing.T) int {
	t.Helper()
	return int(s.metric(t, "pgpilot_routing_decisions_total", map[string]string{"target": "replica", "reason": "read"}))
}

// becomes waits until a condition holds, and reports whether it does.
func becomes(ok func() bool) bool {
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			return false
		}
		<-tick.C
	}
	return true
}

// settled waits until no session is left and every pooled connection is idle, then
// looks at what those connections show to the next clients.
func (s stage) settled(t *testing.T, cluster *lab.Cluster) {
	t.Helper()
	for what, labels := range map[string]map[string]string{
		"pgpilot_sessions_active": {},
		"pgpilot_pool_waiters":    {},
		// A connection that is opened ahead of need is nobody's leak, one that stays lent is.
		"pgpilot_pool_connections": {"state": "active"},
	} {
		if !becomes(func() bool { return s.metric(t, what, labels) == 0 }) {
			t.Errorf("%s%v stays at %v after the program has ended", what, labels, s.metric(t, what, labels))
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	for _, m := range cluster.Members() {
		const left = `SELECT count(*)::text FROM pg_stat_activity a WHERE datname = 'pgpilot' AND pid <> pg_backend_pid()
			AND (state LIKE 'idle in transaction%' OR EXISTS (SELECT FROM pg_locks l WHERE l.pid = a.pid AND l.locktype = 'advisory'))`
		// A classifier that reads the catalog is in a transaction for a moment, and a server
		// process notices only after one that its connection has been closed.
		if !becomes(func() bool { return value(ctx, t, m.SuperDSN(), left) == "0" }) {
			t.Errorf("%s keeps connections in a transaction or with advisory locks", m.Name)
		}
	}
	// Open transactions hold their connections, so that each session looks at another.
	const clean = `SELECT concat_ws(' ', current_user, current_setting('search_path'), current_setting('statement_timeout'),
		(SELECT count(*) FROM pg_class WHERE relpersistence = 't' AND pg_table_is_visible(oid)), (SELECT count(*) FROM pg_listening_channels()))`
	for range 5 {
		conn, err := pgx.Connect(ctx, s.pilot.DSN)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(ctx)
		if _, err := conn.Exec(ctx, "BEGIN", pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(err)
		}
		var got string
		if err := conn.QueryRow(ctx, clean, pgx.QueryExecModeSimpleProtocol).Scan(&got); err != nil {
			t.Fatal(err)
		}
		if want := lab.User + ` "$user", public 0 0 0`; got != want {
			t.Errorf("a new session is shown %q, want %q", got, want)
		}
	}
}

// value asks a server itself for one value.
func value(ctx context.Context, t *testing.T, dsn, sql string) string {
	t.Helper()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	var text string
	if err := conn.QueryRow(ctx, sql, pgx.QueryExecModeSimpleProtocol).Scan(&text); err != nil {
		t.Fatal(err)
	}
	return text
}
