package lab

import (
	"context"
	"fmt"
	"path/filepath"
)

// Certificate is what a server shows to clients that connect with TLS, in PEM.
type Certificate struct {
	Cert, Key string
	// CA is whoever signs clients' certificates; empty: the server asks for none.
	CA string
}

// Encrypt makes the server offer TLS with a certificate, or with another one, and
// returns when it does.
func (m *Member) Encrypt(ctx context.Context, c Certificate) error {
	files := [][3]string{{"ssl_cert_file", "server.crt", c.Cert}, {"ssl_key_file", "server.key", c.Key}}
	if c.CA != "" {
		files = append(files, [3]string{"ssl_ca_file", "root.crt", c.CA})
	}
	for _, f := range files {
		if err := m.cluster.account.writeFile(filepath.Join(m.dataDir(), f[1]), f[2]); err != nil {
			return err
		}
		if err := m.exec(ctx, fmt.Sprintf("ALTER SYSTEM SET %s = '%s'", f[0], f[1])); err != nil {
			return fmt.Errorf("name the %s of %s: %w", f[1], m.Name, err)
		}
	}
	if err := m.exec(ctx, "ALTER SYSTEM SET ssl = on"); err != nil {
		return fmt.Errorf("turn TLS on for %s: %w", m.Name, err)
	}
	return m.reload(ctx, "SELECT current_setting('ssl') = 'on'")
}

// SetAccess replaces who may connect (pg_hba.conf). The lab's superuser must still be
// let in, on the loopback interface and with a password.
func (m *Member) SetAccess(ctx context.Context, hba string) error {
	if err := m.cluster.account.writeFile(filepath.Join(m.dataDir(), "pg_hba.conf"), hba); err != nil {
		return err
	}
	return m.reload(ctx, "SELECT true")
}

// reload makes the server read its files again and waits until it has, as far as
// new connections see it.
func (m *Member) reload(ctx context.Context, done string) error {
	conn, err := m.control(ctx)
	if err != nil {
		return err
	}
	defer closeConn(conn)
	var before string
	if err := conn.QueryRow(ctx, "SELECT pg_conf_load_time()::text").Scan(&before); err != nil {
		return fmt.Errorf("reload %s: %w", m.Name, err)
	}
	if _, err := conn.Exec(ctx, "SELECT pg_reload_conf()"); err != nil {
		return fmt.Errorf("reload %s: %w", m.Name, err)
	}
	err = until(ctx, pollEvery, func() (bool, error) {
		fresh, err := m.control(ctx)
		if err != nil {
			return false, err
		}
		defer closeConn(fresh)
		var at string
		var ok bool
		if err := fresh.QueryRow(ctx, "SELECT pg_conf_load_time()::text").Scan(&at); err != nil {
			return false, err
		}
		err = fresh.QueryRow(ctx, done).Scan(&ok)
		return ok && at != before, err
	})
	if err != nil {
		return fmt.Errorf("wait until %s has reloaded: %w", m.Name, err)
	}
	return nil
}
