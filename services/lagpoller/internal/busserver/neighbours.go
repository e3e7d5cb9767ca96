package busserver

import (
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"math/big"
	"net/url"
	"time"

	"github.com/pgpilot/pgpilot/libs/bus"
	"github.com/pgpilot/pgpilot/libs/rundir"
)

// note is what a lagpoller tells the others of its run directory.
type note struct {
	// Route is where its server takes routes, host:port.
	Route string `json:"route"`
	// Listen and Cluster are bus.listen and bus.cluster.listen as it was told them:
	// those who were told the same share them.
	Listen  string `json:"listen,omitempty"`
	Cluster string `json:"cluster,omitempty"`
}

func (n note) leave(c *rundir.Claim) error {
	text, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("leave a note: %w", err)
	}
	return c.Note(string(text))
}

// neighbours gives the notes of the other lagpollers that run in the directory. One that
// cannot be read is of a build that says it otherwise, and is done without.
func neighbours(dir *rundir.Dir, self string) ([]note, error) {
	left, err := dir.Notes(rundir.Lagpoller)
	if err != nil {
		return nil, err
	}
	var out []note
	for _, l := range left {
		var n note
		if l.ID != self && json.Unmarshal([]byte(l.Text), &n) == nil {
			out = append(out, n)
		}
	}
	return out, nil
}

// routeName is who every server of a cluster says it is to the others.
const routeName = "bus.pgpilot"

// routeTLS gives what both ends of a route show and ask for: one certificate, made of
// the services' secret. Unlike a password, it is not given away to whoever has taken
// the port of a lagpoller that has ended.
func routeTLS(key bus.Key) (*tls.Config, error) {
	seed, err := key.Derive("routes")
	if err != nil {
		return nil, err
	}
	own := ed25519.NewKeyFromSeed(seed)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		DNSNames:     []string{routeName},
		NotBefore:    time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC), // it is the secret that may be changed
		NotAfter:     time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(nil, template, template, own.Public(), own)
	if err != nil {
		return nil, fmt.Errorf("make the certificate of the routes: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("make the certificate of the routes: %w", err)
	}
	only := x509.NewCertPool()
	only.AddCert(leaf)
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: own, Leaf: leaf}},
		RootCAs:      only,
		ClientCAs:    only,
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ServerName:   routeName,
		MinVersion:   tls.VersionTLS13,
	}, nil
}

// routes gives where to: the neighbours' servers and those of other hosts.
func routes(near []note, far []string) []*url.URL {
	var out []*url.URL
	for _, n := range near {
		if n.Route != "" {
			out = append(out, &url.URL{Scheme: "nats-route", Host: n.Route})
		}
	}
	for _, address := range far {
		out = append(out, &url.URL{Scheme: "nats-route", Host: address})
	}
	return out
}
