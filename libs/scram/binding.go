package scram

import (
	"crypto"
	_ "crypto/sha256" // the hash functions of endpointHash
	_ "crypto/sha512"
	"crypto/x509"
	"fmt"

	"github.com/xdg-go/scram"
)

// Mechanisms, by the names that clients choose them by.
const (
	Mechanism     = "SCRAM-SHA-256"
	MechanismPlus = "SCRAM-SHA-256-PLUS"
)

// Endpoint is what ties an exchange to the TLS connection that it runs over: the
// hash of the server's certificate (RFC 5929, tls-server-end-point). An empty one
// stands for a connection that cannot be tied.
type Endpoint []byte

// bindingType is the one that PostgreSQL has.
const bindingType = "tls-server-end-point"

// EndpointOf hashes a certificate with the hash function of its signature, SHA-256 in
// place of MD5 and SHA-1. It is empty where the signature has none of its own
// (Ed25519): the RFC leaves that undefined.
func EndpointOf(cert *x509.Certificate) Endpoint {
	var h crypto.Hash
	switch cert.SignatureAlgorithm {
	case x509.MD5WithRSA, x509.SHA1WithRSA, x509.DSAWithSHA1, x509.ECDSAWithSHA1,
		x509.SHA256WithRSA, x509.SHA256WithRSAPSS, x509.DSAWithSHA256, x509.ECDSAWithSHA256:
		h = crypto.SHA256
	case x509.SHA384WithRSA, x509.SHA384WithRSAPSS, x509.ECDSAWithSHA384:
		h = crypto.SHA384
	case x509.SHA512WithRSA, x509.SHA512WithRSAPSS, x509.ECDSAWithSHA512:
		h = crypto.SHA512
	default:
		return nil
	}
	sum := h.New()
	sum.Write(cert.Raw)
	return sum.Sum(nil)
}

// Binding is how an exchange is tied to its connection.
type Binding struct {
	// Endpoint is the connection's. One that is not empty means that the client was
	// offered MechanismPlus.
	Endpoint Endpoint
	// Chosen says that the client has chosen it.
	Chosen bool
}

func (b Binding) conversation(s *scram.Server) *scram.ServerConversation {
	if !b.Chosen {
		return s.NewConversation()
	}
	return s.NewConversationWithChannelBinding(scram.ChannelBinding{Type: scram.ChannelBindingTLSServerEndpoint, Data: b.Endpoint})
}

// check looks at the channel-binding flag of a client-first-message, and at the type
// that follows it.
func (b Binding) check(flag []byte) *Malformed {
	if len(flag) == 0 {
		return malformed(`Unexpected channel-binding flag "0x2c".`)
	}
	switch {
	case flag[0] != 'n' && flag[0] != 'y' && flag[0] != 'p':
		return malformed(fmt.Sprintf("Unexpected channel-binding flag %q.", sanitized(flag[0])))
	case flag[0] == 'p' && !b.Chosen:
		return malformed("The client selected SCRAM-SHA-256 without channel binding, but the SCRAM message includes channel binding data.")
	case flag[0] != 'p' && b.Chosen:
		return malformed("The client selected SCRAM-SHA-256-PLUS, but the SCRAM message does not include channel binding data.")
	case flag[0] == 'y' && len(b.Endpoint) > 0:
		// Somebody on the way has taken it out of the offer.
		return &Malformed{Code: codeNotAuthorized, Message: "SCRAM channel binding negotiation error",
			Detail: "The client supports SCRAM channel binding but thinks the server does not.  However, this server does support channel binding."}
	case flag[0] == 'p' && string(flag) != "p="+bindingType:
		if len(flag) < 2 || flag[1] != '=' {
			return malformed(`Expected character "=" for attribute "p".`)
		}
		return &Malformed{Code: codeProtocol, Message: fmt.Sprintf("unsupported SCRAM channel-binding type %q", sanitizedText(flag[2:]))}
	}
	return nil
}

// mismatch is a client-final-message whose binding is not this connection's.
func (b Binding) mismatch() *Malformed {
	if b.Chosen {
		return &Malformed{Code: codeNotAuthorized, Message: "SCRAM channel binding check failed"}
	}
	return &Malformed{Code: codeProtocol, Message: "unexpected SCRAM channel-binding attribute in client-final-message"}
}

// sanitizedText shows bytes as PostgreSQL's sanitize_str does.
func sanitizedText(b []byte) string {
	const longest = 30
	out := make([]byte, 0, longest)
	for _, c := range b[:min(len(b), longest)] {
		if c < '!' || c > '~' {
			c = '?'
		}
		out = append(out, c)
	}
	return string(out)
}
