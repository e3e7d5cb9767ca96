// Package certtest makes certificates for tests: an authority of the test's own and
// what it signs, in memory and as PEM files.
package certtest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority signs certificates.
type Authority struct {
	// File has its certificate.
	File string

	t    testing.TB
	cert *x509.Certificate
	key  crypto.Signer
}

// Pair is a certificate with its key.
type Pair struct {
	// CertFile and KeyFile are PEM files; only their owner may read the key.
	CertFile, KeyFile string
	// TLS is the same in memory.
	TLS tls.Certificate
}

// NewAuthority makes an authority whose files end with the test.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{t: t, key: ecKey(t)}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign,
	}
	der := sign(t, template, template, a.key.Public(), a.key)
	var err error
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.File = filepath.Join(t.TempDir(), "ca.crt")
	write(t, a.File, "CERTIFICATE", der)
	return a
}

// Pool is the authority as something to trust.
func (a *Authority) Pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

// Issue signs a certificate with a common name for some hosts, names or addresses.
func (a *Authority) Issue(commonName string, hosts ...string) Pair {
	a.t.Helper()
	return a.issue(ecKey(a.t), commonName, hosts)
}

// SelfSignedEd25519 makes a certificate whose signature names no hash function.
func (a *Authority) SelfSignedEd25519(hosts ...string) Pair {
	a.t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	self := &Authority{t: a.t, key: key}
	return self.issue(key, "ed25519", hosts)
}

func (a *Authority) issue(key crypto.Signer, commonName string, hosts []string) Pair {
	a.t.Helper()
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: commonName}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, h)
		}
	}
	parent := a.cert
	if parent == nil {
		parent = template
	}
	der := sign(a.t, template, parent, key.Public(), a.key)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	dir := a.t.TempDir()
	p := Pair{CertFile: filepath.Join(dir, "server.crt"), KeyFile: filepath.Join(dir, "server.key")}
	write(a.t, p.CertFile, "CERTIFICATE", der)
	write(a.t, p.KeyFile, "PRIVATE KEY", keyDER)
	if p.TLS, err = tls.LoadX509KeyPair(p.CertFile, p.KeyFile); err != nil {
		a.t.Fatal(err)
	}
	return p
}

func ecKey(t testing.TB) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func sign(t testing.TB, template, parent *x509.Certificate, public crypto.PublicKey, key crypto.Signer) []byte {
	t.Helper()
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber = serial
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func write(t testing.TB, path, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}
