package scram

import (
	"crypto/sha256"
	"errors"
	"testing"

	"github.com/xdg-go/scram"

	"github.com/pgpilot/pgpilot/libs/certtest"
)

// bound runs an exchange over a connection with an endpoint, with a client that ties
// it to what it believes to be the endpoint.
func bound(t *testing.T, b *Book, tied Binding, believes []byte) error {
	t.Helper()
	c, err := scram.SHA256.NewClientUnprepped("", "pencil", "")
	if err != nil {
		t.Fatal(err)
	}
	conv := c.NewConversationWithChannelBinding(scram.ChannelBinding{Type: scram.ChannelBindingTLSServerEndpoint, Data: believes})
	m, err := conv.Step("")
	if err != nil {
		t.Fatal(err)
	}
	e, err := b.Begin("alice", tied)
	if err != nil {
		t.Fatal(err)
	}
	s, err := e.First([]byte(m))
	if err != nil {
		return err
	}
	if m, err = conv.Step(string(s)); err != nil {
		t.Fatal(err)
	}
	_, err = e.Final([]byte(m))
	return err
}

func TestChannelBinding(t *testing.T) {
	b := newBook(t, User{"alice", "pencil"})
	tied := Binding{Endpoint: Endpoint("the server's certificate"), Chosen: true}
	if err := bound(t, b, tied, tied.Endpoint); err != nil {
		t.Error(err)
	}
	var m *Malformed
	if err := bound(t, b, tied, []byte("another's")); !errors.As(err, &m) || m.Code != "28000" || m.Message != "SCRAM channel binding check failed" {
		t.Errorf("somebody in the middle: %v", err)
	}
}

// The words are PostgreSQL's (src/backend/libpq/auth-scram.c).
func TestChannelBindingFlags(t *testing.T) {
	b := newBook(t, User{"alice", "pencil"})
	offered := Endpoint("x")
	for _, c := range []struct {
		tied        Binding
		first, want string
	}{
		{Binding{}, "n,,n=,r=abc", ""},
		{Binding{}, "y,,n=,r=abc", ""},
		{Binding{}, "p=tls-server-end-point,,n=,r=abc", "malformed SCRAM message: The client selected SCRAM-SHA-256 without channel binding, but the SCRAM message includes channel binding data."},
		{Binding{Endpoint: offered}, "n,,n=,r=abc", ""},
		{Binding{Endpoint: offered}, "y,,n=,r=abc", "SCRAM channel binding negotiation error: The client supports SCRAM channel binding but thinks the server does not.  However, this server does support channel binding."},
		{Binding{Endpoint: offered, Chosen: true}, "p=tls-server-end-point,,n=,r=abc", ""},
		{Binding{Endpoint: offered, Chosen: true}, "n,,n=,r=abc", "malformed SCRAM message: The client selected SCRAM-SHA-256-PLUS, but the SCRAM message does not include channel binding data."},
		{Binding{Endpoint: offered, Chosen: true}, "p=tls-unique,,n=,r=abc", `unsupported SCRAM channel-binding type "tls-unique"`},
		{Binding{Endpoint: offered, Chosen: true}, "p=a\nb,,n=,r=abc", `unsupported SCRAM channel-binding type "a?b"`},
		{Binding{Endpoint: offered, Chosen: true}, "p,,n=,r=abc", `malformed SCRAM message: Expected character "=" for attribute "p".`},
	} {
		e, err := b.Begin("alice", c.tied)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if _, err := e.First([]byte(c.first)); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%+v, %q: got %q, want %q", c.tied, c.first, got, c.want)
		}
	}
}

func TestEndpoint(t *testing.T) {
	ca := certtest.NewAuthority(t)
	cert := ca.Issue("server", "localhost").TLS.Leaf
	sum := sha256.Sum256(cert.Raw)
	if got := EndpointOf(cert); string(got) != string(sum[:]) {
		t.Errorf("got %x, want %x", got, sum)
	}
	if got := EndpointOf(ca.SelfSignedEd25519("localhost").TLS.Leaf); got != nil {
		t.Errorf("a signature without a hash function gives %x", got)
	}
}
