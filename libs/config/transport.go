package config

import "time"

// Modes of TLS to clients.
const (
	// TLSDisable declines every request for TLS.
	TLSDisable = "disable"
	// TLSAllow serves clients with TLS and without, as soon as there is a certificate.
	TLSAllow = "allow"
	// TLSRequire refuses clients without TLS, except over the Unix socket.
	TLSRequire = "require"
)

// What is asked of a client's certificate (pg_hba.conf's clientcert).
const (
	// NoClientCert asks for none; one that is shown must be valid all the same.
	NoClientCert = "none"
	// ClientCertVerifyCA wants one that an authority of ca_file has signed.
	ClientCertVerifyCA = "verify-ca"
	// ClientCertVerifyFull wants the user's name in it too, as its common name.
	ClientCertVerifyFull = "verify-full"
)

// Protocol versions of TLS, as PostgreSQL writes them.
const (
	TLSv12 = "TLSv1.2"
	TLSv13 = "TLSv1.3"
)

// TLS to clients (PostgreSQL documentation, "Secure TCP/IP Connections with SSL").
// The files are read again when the configuration is.
type TLS struct {
	// Mode is TLSDisable, TLSAllow or TLSRequire.
	Mode string `json:"mode"`
	// CertFile has the certificate and whatever it was signed with, KeyFile its key,
	// both in PEM.
	CertFile string `json:"cert_file"`
	KeyFile  string `json:"key_file"`
	// CAFile has the authorities that sign clients' certificates.
	CAFile string `json:"ca_file"`
	// ClientCert is NoClientCert, ClientCertVerifyCA or ClientCertVerifyFull.
	ClientCert string `json:"clientcert"`
	// MinProtocolVersion is TLSv12 or TLSv13.
	MinProtocolVersion string `json:"min_protocol_version"`
}

// Serves says that clients may have TLS.
func (t TLS) Serves() bool { return t.Mode != TLSDisable && t.CertFile != "" }

// Modes of TLS to servers, which are libpq's.
const (
	SSLDisable    = "disable"
	SSLPrefer     = "prefer"
	SSLRequire    = "require"
	SSLVerifyCA   = "verify-ca"
	SSLVerifyFull = "verify-full"
)

// SystemRoots in place of a file of ServerTLS stands for the authorities that this
// machine trusts.
const SystemRoots = "system"

// ServerTLS is TLS to servers. The keys are libpq's parameters (PostgreSQL
// documentation, "SSL Support"). The files are read at every connection.
type ServerTLS struct {
	// Mode is one of the SSL modes.
	Mode string `json:"sslmode" reload:"restart"`
	// RootCert has the authorities that sign servers' certificates, or is SystemRoots.
	RootCert string `json:"sslrootcert" reload:"restart"`
	// Cert and Key are pgpilot's own certificate for servers that ask for one.
	Cert string `json:"sslcert" reload:"restart"`
	Key  string `json:"sslkey" reload:"restart"`
}

// TCP is how dead peers are noticed, clients and servers alike. The keys are
// PostgreSQL's without their tcp_ (documentation, "Connections and
// Authentication", "TCP Settings"); zero is what the system has.
type TCP struct {
	// KeepalivesIdle is how long a connection is silent before the first probe,
	// KeepalivesInterval the pause between two, both in whole seconds.
	KeepalivesIdle     Duration `json:"keepalives_idle" reload:"restart"`
	KeepalivesInterval Duration `json:"keepalives_interval" reload:"restart"`
	// KeepalivesCount is how many probes go unanswered before the connection is dead.
	KeepalivesCount int `json:"keepalives_count" reload:"restart"`
	// UserTimeout is how long sent data may go unacknowledged.
	UserTimeout Duration `json:"user_timeout" reload:"restart"`
}

func (p *problems) validateTLS(c *Config) {
	t := &c.TLS
	p.oneOf("tls.mode", t.Mode, TLSDisable, TLSAllow, TLSRequire)
	p.oneOf("tls.clientcert", t.ClientCert, NoClientCert, ClientCertVerifyCA, ClientCertVerifyFull)
	p.oneOf("tls.min_protocol_version", t.MinProtocolVersion, TLSv12, TLSv13)
	switch {
	case t.CertFile != "" && t.KeyFile == "":
		p.invalid("tls.key_file", "a certificate is of no use without its key: name the file of the key too")
	case t.CertFile == "" && t.KeyFile != "":
		p.invalid("tls.cert_file", "a key is of no use without its certificate: name the file of the certificate too")
	case t.Mode == TLSRequire && t.CertFile == "":
		p.invalid("tls.mode", "nobody could connect without a certificate: name its files in tls.cert_file and tls.key_file")
	case t.CertFile == "" && t.CAFile != "":
		p.invalid("tls.ca_file", "clients show certificates only over TLS: name the server's own in tls.cert_file and tls.key_file")
	}
	if t.ClientCert != NoClientCert && t.CAFile == "" {
		p.invalid("tls.clientcert", "%q needs the authorities that sign clients' certificates: name their file in tls.ca_file", t.ClientCert)
	}
	if t.ClientCert != NoClientCert && t.Mode != TLSRequire {
		p.invalid("tls.clientcert", "%q is of no use while clients may connect without TLS: set tls.mode to %q", t.ClientCert, TLSRequire)
	}

	s := &c.ServerTLS
	p.oneOf("server_tls.sslmode", s.Mode, SSLDisable, SSLPrefer, SSLRequire, SSLVerifyCA, SSLVerifyFull)
	if (s.Mode == SSLVerifyCA || s.Mode == SSLVerifyFull) && s.RootCert == "" {
		p.invalid("server_tls.sslrootcert", "%q needs the authorities to trust: name their file, or write %q", s.Mode, SystemRoots)
	}
	if s.RootCert == SystemRoots && s.Mode != SSLVerifyFull {
		p.invalid("server_tls.sslmode", "%q is too weak with the authorities of the system, who sign for everybody: set it to %q", s.Mode, SSLVerifyFull)
	}
	if s.Cert != "" && s.Key == "" {
		p.invalid("server_tls.sslkey", "a certificate is of no use without its key: name the file of the key too")
	}
	if s.Cert == "" && s.Key != "" {
		p.invalid("server_tls.sslcert", "a key is of no use without its certificate: name the file of the certificate too")
	}
}

func (p *problems) validateTCP(t *TCP) {
	for _, k := range []struct {
		path string
		d    Duration
		unit time.Duration
	}{
		{"tcp.keepalives_idle", t.KeepalivesIdle, time.Second},
		{"tcp.keepalives_interval", t.KeepalivesInterval, time.Second},
		{"tcp.user_timeout", t.UserTimeout, time.Millisecond},
	} {
		switch {
		case k.d < 0 || k.d.D()%k.unit != 0:
			p.invalid(k.path, "%s is no multiple of %s: write one, or \"0s\" for what the system has", k.d, k.unit)
		case k.d.D() > maxTCP:
			p.invalid(k.path, "%s is too long: write at most %s", k.d, Duration(maxTCP))
		}
	}
	if t.KeepalivesCount < 0 || t.KeepalivesCount > maxKeepalives {
		p.invalid("tcp.keepalives_count", "%d is out of range: write a number from 1 to %d, or 0 for what the system has", t.KeepalivesCount, maxKeepalives)
	}
}

// What Linux takes (MAX_TCP_KEEPIDLE, MAX_TCP_KEEPCNT).
const (
	maxTCP        = 32767 * time.Second
	maxKeepalives = 127
)
