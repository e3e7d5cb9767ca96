package soak

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/pgpilot/pgpilot/libs/lab"
)

// dial opens a session of the simplest driver.
func dial(ctx context.Context, dsn string) (*pgconn.PgConn, error) {
	cfg, err := pgconn.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	cfg.OnNotice = func(*pgconn.PgConn, *pgconn.Notice) {}
	return pgconn.ConnectConfig(ctx, cfg)
}

// open opens a session that has to be had, until the test ends.
func open(t *testing.T, dsn string) *pgconn.PgConn {
	t.Helper()
	conn, err := dial(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shut(conn) })
	return conn
}

func shut(conn *pgconn.PgConn) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_ = conn.Close(ctx) // its end may have died
}

// metrics gives the gauges of the metrics page, by name.
func (r *run) metrics() map[string]*dto.MetricFamily {
	r.Helper()
	client := http.Client{Timeout: patience}
	defer client.CloseIdleConnections()
	resp, err := client.Get("http://" + r.pilot.Config().Observability.MetricsAddr + "/metrics")
	if err != nil {
		r.Fatal(err)
	}
	defer resp.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	all, err := parser.TextToMetricFamilies(resp.Body)
	if err != nil {
		r.Fatalf("read the metrics page: %v", err)
	}
	return all
}

// sum adds the gauges of a family that have the label's value; all of them without one.
func sum(f *dto.MetricFamily, label, value string) int {
	n := 0.0
	for _, m := range f.GetMetric() {
		matches := label == ""
		for _, l := range m.GetLabel() {
			matches = matches || l.GetName() == label && l.GetValue() == value
		}
		if matches {
			n += m.GetGauge().GetValue()
		}
	}
	return int(n)
}

// slack is how much more there may be of anything: services have connections among
// themselves that come and go. Thousands of sessions would leave more.
const slack = 5

// watched are the services whose descriptors and goroutines are counted.
var watched = []string{"listener", "router"}

// settled waits until no session is left and no connection is lent, and gives the
// smallest counts then seen: descriptors without those of pooled connections, and
// goroutines. With limits it waits until there are no more than those.
func (r *run) settled(limits map[string]int) map[string]int {
	r.Helper()
	least := map[string]int{}
	deadline := time.Now().Add(patience)
	for looks := 0; ; time.Sleep(20 * time.Millisecond) { // between two looks
		all := r.metrics()
		busy := map[string]int{
			"sessions": sum(all["pgpilot_sessions_active"], "", ""),
			"waiters":  sum(all["pgpilot_pool_waiters"], "", ""),
			"lent":     sum(all["pgpilot_pool_connections"], "state", "active"),
		}
		idle := busy["sessions"]+busy["waiters"]+busy["lent"] == 0
		if idle {
			r.count(all, least)
			looks++
		}
		fits := looks >= 20
		for what, limit := range limits {
			fits = fits && least[what] <= limit+slack
		}
		if fits {
			return least
		}
		if time.Now().After(deadline) {
			if !idle {
				r.Errorf("left behind: %v", busy)
			}
			return least
		}
	}
}

// count lowers the counts to what is there now.
func (r *run) count(all map[string]*dto.MetricFamily, least map[string]int) {
	r.Helper()
	for _, service := range watched {
		fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", r.pilot.Service(service, 1).Pid()))
		if err != nil {
			r.Fatal(err)
		}
		now := map[string]int{"goroutines of " + service: sum(all["go_goroutines"], "service", service), "descriptors of " + service: len(fds)}
		if service == "router" {
			now["descriptors of router"] -= sum(all["pgpilot_pool_connections"], "", "")
		}
		for what, n := range now {
			if was, seen := least[what]; !seen || n < was {
				least[what] = n
			}
		}
	}
}

// clean looks for what sessions may have left in pooled connections.
func (r *run) clean() {
	r.Helper()
	for _, m := range r.cluster.Members() {
		if n := sum(r.metrics()["pgpilot_pool_connections"], "backend", m.Name); n > poolSize {
			r.Errorf("the pool has %d connections to %s, and may have %d", n, m.Name, poolSize)
		}
	}
	for _, m := range r.cluster.Members() {
		conn := open(r.T, m.SuperDSN())
		const left = `SELECT (SELECT count(*) FROM pg_class WHERE relpersistence = 't' AND relkind = 'r')
			+ (SELECT count(*) FROM pg_prepared_xacts) + count(*) FROM pg_stat_activity a
			WHERE usename = 'pgpilot' AND backend_type = 'client backend' AND pid <> pg_backend_pid()
			AND (state LIKE 'idle in transaction%' OR EXISTS (SELECT FROM pg_locks l WHERE l.pid = a.pid AND l.locktype = 'advisory'))`
		deadline := time.Now().Add(patience)
		for value(r.T, conn, left) != "0" { // who reads the catalog is in a transaction for a moment
			if time.Now().After(deadline) {
				r.Errorf("%s keeps transactions, locks or temporary tables", m.Name)
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	// Open transactions hold their connections, so that each session looks at another.
	const shown = `SELECT concat_ws(' ', current_user, current_setting('search_path'), current_setting('TimeZone'),
		nullif(current_setting('my.client', true), ''), (SELECT count(*) FROM pg_listening_channels()), (SELECT count(*) FROM pg_cursors))`
	want := lab.User + ` "$user", public ` + value(r.T, open(r.T, r.cluster.Primary().DSN()), "SHOW TimeZone") + " 0 0"
	for range poolSize {
		conn := open(r.T, r.pilot.DSN)
		if _, err := conn.Exec(r.Context(), "BEGIN").ReadAll(); err != nil {
			r.Fatal(err)
		}
		if got := value(r.T, conn, shown); got != want {
			r.Errorf("a new session is shown %q, want %q", got, want)
		}
	}
}

// value asks for one value.
func value(t *testing.T, conn *pgconn.PgConn, sql string) string {
	t.Helper()
	results, err := conn.Exec(t.Context(), sql).ReadAll()
	if err != nil || len(results) != 1 || len(results[0].Rows) != 1 {
		t.Fatalf("%s: %v, %v", sql, results, err)
	}
	return string(results[0].Rows[0][0])
}
