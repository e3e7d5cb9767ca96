package dial

import (
	"crypto/tls"
	"crypto/x509"
	"strings"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/keypair"
)

// encryption gives what TLS to the server needs, nil where there is to be none. The
// files are read anew each time.
func (s Server) encryption() (*tls.Config, error) {
	if s.TLS.Mode == "" || s.TLS.Mode == config.SSLDisable || strings.HasPrefix(s.Host, "/") { // PostgreSQL does not encrypt Unix sockets
		return nil, nil
	}
	c := &tls.Config{
		MinVersion: tls.VersionTLS12,
		ServerName: s.Host,
		NextProtos: []string{"postgresql"},
		// Records are for the server's buffer, not for a browser's first paint.
		DynamicRecordSizingDisabled: true,
		InsecureSkipVerify:          true, // of the chain and the name; unless verified below
	}
	if s.TLS.Cert != "" {
		pair, err := keypair.Load(s.TLS.Cert, s.TLS.Key)
		if err != nil {
			return nil, err
		}
		c.Certificates = []tls.Certificate{pair}
	}
	mode := s.TLS.Mode
	if mode == config.SSLRequire && s.TLS.RootCert != "" {
		mode = config.SSLVerifyCA // as libpq does
	}
	if mode != config.SSLVerifyCA && mode != config.SSLVerifyFull {
		return c, nil
	}
	if s.TLS.RootCert != config.SystemRoots {
		roots, err := keypair.Roots(s.TLS.RootCert)
		if err != nil {
			return nil, err
		}
		c.RootCAs = roots
	}
	if mode == config.SSLVerifyFull {
		c.InsecureSkipVerify = false
		return c, nil
	}
	// crypto/tls knows only both checks or none.
	c.VerifyConnection = func(state tls.ConnectionState) error {
		o := x509.VerifyOptions{Roots: c.RootCAs, Intermediates: x509.NewCertPool()}
		for _, cert := range state.PeerCertificates[1:] {
			o.Intermediates.AddCert(cert)
		}
		_, err := state.PeerCertificates[0].Verify(o)
		return err
	}
	return c, nil
}
