// Package keypair reads certificates, keys and authorities from PEM files and
// refuses what PostgreSQL and libpq refuse, in one sentence that names the file: a
// key that others may read, one that is encrypted, one that does not belong to its
// certificate (PostgreSQL documentation, "Secure TCP/IP Connections with SSL").
package keypair

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Load reads a certificate, with whatever it was signed with behind it, and its key.
func Load(certFile, keyFile string) (tls.Certificate, error) {
	cert, err := os.ReadFile(certFile)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("read certificate: %w", err)
	}
	key, err := readKey(keyFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("use certificate %s with key %s: %s", certFile, keyFile, strings.TrimPrefix(err.Error(), "tls: "))
	}
	if pair.Leaf == nil {
		if pair.Leaf, err = x509.ParseCertificate(pair.Certificate[0]); err != nil {
			return tls.Certificate{}, fmt.Errorf("read certificate %s: %w", certFile, err)
		}
	}
	return pair, nil
}

func readKey(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read key: %w", err)
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, fmt.Errorf("read key %s: %w", path, err)
	}
	if err := checkAccess(path, st.Mode, st.Uid, uint32(os.Geteuid())); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if _, err := b.ReadFrom(f); err != nil {
		return nil, fmt.Errorf("read key: %w", err)
	}
	if block, _ := pem.Decode(b.Bytes()); block != nil && (block.Type == "ENCRYPTED PRIVATE KEY" || block.Headers["DEK-Info"] != "") {
		return nil, fmt.Errorf("key %s is protected by a passphrase, which nobody could type: remove it with openssl pkey", path)
	}
	return b.Bytes(), nil
}

// checkAccess applies PostgreSQL's rule (check_ssl_key_file_permissions).
func checkAccess(path string, mode, owner, self uint32) error {
	switch {
	case mode&unix.S_IFMT != unix.S_IFREG:
		return fmt.Errorf("key %s is not a regular file", path)
	case owner != self && owner != 0:
		return fmt.Errorf("key %s belongs to another user (uid %d): chown it to the user that runs pgpilot (uid %d) or to root", path, owner, self)
	case owner == self && owner != 0 && mode&0o077 != 0, owner == 0 && mode&0o037 != 0:
		return fmt.Errorf("key %s has group or world access (mode %04o): chmod it to 0600, or to 0640 if root owns it", path, mode&0o7777)
	}
	return nil
}

// Roots reads the authorities in a file.
func Roots(path string) (*x509.CertPool, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read authorities: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(b) {
		return nil, errors.New("read authorities: there is no certificate in " + path)
	}
	return pool, nil
}
