// Package encryption is what the listener does about TLS: the certificate it shows,
// what it asks of clients, and whom it serves without. It is made of the
// configuration's section tls as a whole, so that a file that cannot be used leaves
// everything as it was (PostgreSQL documentation, "Secure TCP/IP Connections with
// SSL").
package encryption

import (
	"crypto/tls"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/keypair"
	"github.com/pgpilot/pgpilot/libs/scram"
)

// Protocol is what clients that begin with TLS at once must ask for (ALPN), so that
// another protocol's connection cannot be turned into one of PostgreSQL.
const Protocol = "postgresql"

// Policy is immutable.
type Policy struct {
	// Config is for handshakes; nil: TLS is declined.
	Config *tls.Config
	// Endpoint ties logins to connections with this certificate.
	Endpoint scram.Endpoint
	required bool
	// certificate and named say what a client's certificate must be.
	certificate, named bool
}

// New reads the files that the configuration names.
func New(t config.TLS) (*Policy, error) {
	if !t.Serves() {
		return &Policy{}, nil
	}
	pair, err := keypair.Load(t.CertFile, t.KeyFile)
	if err != nil {
		return nil, err
	}
	p := &Policy{
		Config: &tls.Config{
			Certificates: []tls.Certificate{pair},
			MinVersion:   tls.VersionTLS12,
			NextProtos:   []string{Protocol},
			// As PostgreSQL does: a resumed session would outlive the authorities that its
			// client's certificate was checked with.
			SessionTicketsDisabled: true,
			// Records are for a driver's buffer, not for a browser's first paint.
			DynamicRecordSizingDisabled: true,
		},
		Endpoint:    scram.EndpointOf(pair.Leaf),
		required:    t.Mode == config.TLSRequire,
		certificate: t.ClientCert != config.NoClientCert,
		named:       t.ClientCert == config.ClientCertVerifyFull,
	}
	if t.MinProtocolVersion == config.TLSv13 {
		p.Config.MinVersion = tls.VersionTLS13
	}
	if t.CAFile != "" {
		if p.Config.ClientCAs, err = keypair.Roots(t.CAFile); err != nil {
			return nil, err
		}
		// Who has none is told so in PostgreSQL's words, not by an alert.
		p.Config.ClientAuth = tls.VerifyClientCertIfGiven
	}
	return p, nil
}

// Admits says whether a client may go on, with TLS or without. Unix sockets do not
// leave the machine.
func (p *Policy) Admits(local, secure bool) bool { return secure || local || !p.required }

// Certified says whether a client has shown the certificate that is asked for, if
// one is. secure is its connection, nil for one without TLS.
func (p *Policy) Certified(secure *tls.Conn) bool {
	return !p.certificate || secure == nil || len(secure.ConnectionState().PeerCertificates) > 0
}

// Names says whether the certificate is the user's own, where it must be.
func (p *Policy) Names(secure *tls.Conn, user string) bool {
	if !p.named || secure == nil {
		return true
	}
	shown := secure.ConnectionState().PeerCertificates
	return len(shown) > 0 && shown[0].Subject.CommonName == user
}
