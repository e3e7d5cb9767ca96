package lab

import (
	"fmt"
	"net/url"
	"strings"
)

// hbaConf asks for SCRAM from everybody, whichever way they come ("Client
// Authentication", pg_hba.conf).
const hbaConf = `local all,replication all scram-sha-256
host all,replication all 127.0.0.1/32 scram-sha-256
host all,replication all ::1/128 scram-sha-256
`

// labConf is included at the end of postgresql.conf and rewritten before every start.
const labConf = "lab.conf"

// config returns the member's lab.conf when it follows (or is) the given primary.
func (m *Member) config(primary *Member) string {
	c := m.cluster
	settings := [][2]string{
		{"cluster_name", m.Name},
		{"listen_addresses", strings.Join(loopbackHosts(), ",")},
		{"port", fmt.Sprint(m.Port)},
		{"unix_socket_directories", c.socketDir()},
		{"max_connections", "200"},
		{"shared_buffers", "64MB"},
		{"wal_level", "replica"},
		{"hot_standby", "on"},
		{"max_wal_senders", "20"},
		{"max_replication_slots", "20"},
		{"wal_keep_size", "64MB"},
		{"password_encryption", "scram-sha-256"},
		{"logging_collector", "off"},
		{"log_line_prefix", "%m [%p] %q%u@%d %a "},
		// Without it a long query on a replica is cancelled by vacuum on the primary, and
		// tests would fail for a reason that is none of theirs.
		{"hot_standby_feedback", "on"},
		// The default of 5 s is how long a replica would stay away from a restarted primary.
		{"wal_retrieve_retry_interval", "200ms"},
	}
	if c.fast {
		settings = append(settings, [2]string{"fsync", "off"})
	}
	if m != primary {
		settings = append(settings,
			[2]string{"primary_slot_name", m.Name},
			[2]string{"primary_conninfo", fmt.Sprintf("host=%s port=%d user=%s password=%s application_name=%s",
				primary.Host, primary.Port, superUser, c.superPassword, m.Name)})
	}
	var b strings.Builder
	for _, s := range settings {
		fmt.Fprintf(&b, "%s = '%s'\n", s[0], strings.ReplaceAll(s[1], "'", "''"))
	}
	return b.String()
}

func dsn(host string, port int, user, password, database string) string {
	u := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(user, password),
		Host:     fmt.Sprintf("%s:%d", host, port),
		Path:     "/" + database,
		RawQuery: "sslmode=disable",
	}
	return u.String()
}
