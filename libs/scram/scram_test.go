package scram

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/xdg-go/scram"
)

var testSecret = []byte("0123456789abcdef0123456789abcdef")

func newBook(t testing.TB, users ...User) *Book {
	t.Helper()
	b, err := NewBook(testSecret, users)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The file holds what PostgreSQL 15 stored in pg_authid for each password.
func TestVerifiersAreThoseOfPostgreSQL(t *testing.T) {
	f, err := os.Open("testdata/postgresql15.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n := 0
	for sc := bufio.NewScanner(f); sc.Scan(); n++ {
		cut := strings.LastIndexByte(sc.Text(), ' ')
		var password string
		if err := json.Unmarshal([]byte(sc.Text()[:cut]), &password); err != nil {
			t.Fatal(err)
		}
		salt, err := base64.StdEncoding.DecodeString(strings.Split(strings.Split(sc.Text()[cut:], ":")[1], "$")[0])
		if err != nil {
			t.Fatal(err)
		}
		v, err := derive(password, salt)
		if err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprintf(" SCRAM-SHA-256$%d:%s$%s:%s", v.Iters, base64.StdEncoding.EncodeToString([]byte(v.Salt)),
			base64.StdEncoding.EncodeToString(v.StoredKey), base64.StdEncoding.EncodeToString(v.ServerKey))
		if got != sc.Text()[cut:] {
			t.Errorf("password %q:\n got%s\nwant%s", password, got, sc.Text()[cut:])
		}
	}
	if n < 30 {
		t.Fatalf("only %d verifiers in the file", n)
	}
}

func TestPasswordThatIsNotUTF8IsUsedAsItIs(t *testing.T) {
	if got := prepare("p\xe9ss"); got != "p\xe9ss" {
		t.Fatalf("prepared %q", got)
	}
}

// login runs a whole exchange with a client that knows the password.
func login(t *testing.T, b *Book, user, password string) (serverFirst string, err error) {
	t.Helper()
	c, err := scram.SHA256.NewClientUnprepped("", password, "")
	if err != nil {
		t.Fatal(err)
	}
	conv := c.NewConversation()
	first, err := conv.Step("")
	if err != nil {
		t.Fatal(err)
	}
	e, err := b.Begin(user, Binding{})
	if err != nil {
		t.Fatal(err)
	}
	sf, err := e.First([]byte(first))
	if err != nil {
		t.Fatal(err)
	}
	final, err := conv.Step(string(sf))
	if err != nil {
		t.Fatal(err)
	}
	v, err := e.Final([]byte(final))
	if err != nil {
		return string(sf), err
	}
	if _, err := conv.Step(string(v)); err != nil || !conv.Valid() {
		t.Fatalf("the client does not believe the server: %v", err)
	}
	return string(sf), nil
}

func TestLogin(t *testing.T) {
	b := newBook(t, User{"alice", "pencil"})
	for _, c := range []struct {
		user, password string
		want           error
	}{
		{"alice", "pencil", nil},
		{"alice", "Pencil", ErrDenied},
		{"alice", "", ErrDenied},
		{"mallory", "pencil", ErrDenied},
		{"mallory", "", ErrDenied},
		{"", "pencil", ErrDenied},
	} {
		if _, err := login(t, b, c.user, c.password); !errors.Is(err, c.want) {
			t.Errorf("user %q, password %q: got %v, want %v", c.user, c.password, err, c.want)
		}
	}
}

// A mock exchange that somebody could win (by luck or by knowing the secret) is
// lost all the same.
func TestMockExchangeCannotBeWon(t *testing.T) {
	b := newBook(t)
	b.verifiers["ghost"], _ = derive("pencil", b.salt("ghost"))
	e, err := b.Begin("ghost", Binding{})
	if err != nil {
		t.Fatal(err)
	}
	e.known = false
	c, _ := scram.SHA256.NewClientUnprepped("", "pencil", "")
	conv := c.NewConversation()
	m, _ := conv.Step("")
	sf, err := e.First([]byte(m))
	if err != nil {
		t.Fatal(err)
	}
	m, _ = conv.Step(string(sf))
	if _, err := e.Final([]byte(m)); !errors.Is(err, ErrDenied) {
		t.Fatalf("got %v, want %v", err, ErrDenied)
	}
}

func TestUnknownUsersLookLikeKnownOnes(t *testing.T) {
	with := newBook(t, User{"alice", "pencil"})
	without := newBook(t)
	shape := func(sf string) (nonceLen int, rest string) {
		r, rest, _ := strings.Cut(sf, ",")
		return len(r), rest
	}
	known, err := login(t, with, "alice", "pencil")
	if err != nil {
		t.Fatal(err)
	}
	again, _ := login(t, with, "alice", "wrong")
	unknown, _ := login(t, without, "alice", "pencil")
	kn, kr := shape(known)
	for _, other := range []string{again, unknown} {
		if n, r := shape(other); n != kn || r != kr {
			t.Errorf("server-first-message %q differs from %q in more than its nonce", other, known)
		}
		if other == known {
			t.Error("a nonce was used twice")
		}
	}
	if a, b := with.salt("alice"), with.salt("bob"); string(a) == string(b) {
		t.Error("two users have one salt")
	}
}

func TestRefusalsInPostgreSQLsWords(t *testing.T) {
	b := newBook(t, User{"alice", "pencil"})
	for _, c := range []struct{ msg, code, message, detail string }{
		{"", "08P01", "malformed SCRAM message", "The message is empty."},
		{"n,,n=,r=abc\x00def", "08P01", "malformed SCRAM message", "Message length does not match input length."},
		{"p=tls-server-end-point,,n=,r=abc", "08P01", "malformed SCRAM message", "The client selected SCRAM-SHA-256 without channel binding, but the SCRAM message includes channel binding data."},
		{"garbage", "08P01", "malformed SCRAM message", `Unexpected channel-binding flag "'g'".`},
		{"q,,n=,r=abc", "08P01", "malformed SCRAM message", `Unexpected channel-binding flag "'q'".`},
		{"n,a=x,n=,r=abc", "0A000", "client uses authorization identity, but it is not supported", ""},
		{"n,x,n=,r=abc", "08P01", "malformed SCRAM message", `Unexpected attribute "'x'" in client-first-message.`},
		{"n,,m=x,n=,r=abc", "0A000", "client requires an unsupported SCRAM extension", ""},
		{"n,,n=,r=a\x01c", "08P01", "non-printable characters in SCRAM nonce", ""},
		{"n,,n=x", "08P01", "malformed SCRAM message", ""},
	} {
		e, err := b.Begin("alice", Binding{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = e.First([]byte(c.msg))
		var m *Malformed
		if !errors.As(err, &m) || *m != (Malformed{c.code, c.message, c.detail}) {
			t.Errorf("%q: got %#v", c.msg, err)
		}
	}
	proof := base64.StdEncoding.EncodeToString(make([]byte, 32))
	for _, c := range []struct {
		msg  func(nonce string) string
		want string
	}{
		{func(n string) string { return "c=biws," + n + "x,p=" + proof }, "invalid SCRAM response"},
		{func(n string) string { return "c=eSws," + n + ",p=" + proof }, "unexpected SCRAM channel-binding attribute in client-final-message"},
		{func(n string) string { return "c=biws," + n + ",p=abc" }, "malformed SCRAM message"},
		{func(n string) string { return "c=biws," + n + ",p=" + proof + ",z" }, "malformed SCRAM message"},
		{func(string) string { return "garbage" }, "malformed SCRAM message"},
		{func(n string) string { return "c=biws," + n + ",e=foo,p=" + proof }, ""},
	} {
		e, err := b.Begin("alice", Binding{})
		if err != nil {
			t.Fatal(err)
		}
		sf, err := e.First([]byte("n,,n=,r=abc"))
		if err != nil {
			t.Fatal(err)
		}
		nonce, _, _ := strings.Cut(string(sf), ",")
		_, err = e.Final([]byte(c.msg(nonce)))
		var m *Malformed
		switch {
		case c.want == "":
			if !errors.Is(err, ErrDenied) {
				t.Errorf("%q: got %v, want a refusal", c.msg(nonce), err)
			}
		case !errors.As(err, &m) || m.Message != c.want:
			t.Errorf("%q: got %#v, want %q", c.msg(nonce), err, c.want)
		}
	}
}

func TestBookRefusesWhatCannotBeSafe(t *testing.T) {
	if _, err := NewBook(testSecret[:16], nil); err == nil {
		t.Error("a short secret is taken")
	}
	if _, err := NewBook(testSecret, []User{{"alice", ""}}); err == nil {
		t.Error("an empty password is taken")
	}
}

func FuzzExchange(f *testing.F) {
	b := newBook(f, User{"alice", "pencil"})
	f.Add("n,,n=,r=abc", "c=biws,r=abc,p=AAAA", false, false)
	f.Add("y,,n=*,r=abc,x=y", "", true, false)
	f.Add("p=,,", "c=", true, true)
	f.Add("p=tls-server-end-point,,n=,r=abc", "c=cD10bHMtc2VydmVyLWVuZC1wb2ludCwseA==,r=abc,p=AAAA", true, true)
	f.Fuzz(func(t *testing.T, first, final string, offered, chosen bool) {
		var tied Binding
		if offered {
			tied = Binding{Endpoint: Endpoint("x"), Chosen: chosen}
		}
		e, err := b.Begin("alice", tied)
		if err != nil {
			t.Fatal(err)
		}
		var m *Malformed
		if _, err := e.First([]byte(first)); err != nil {
			if !errors.As(err, &m) {
				t.Fatalf("first: %v", err)
			}
			return
		}
		if _, err := e.Final([]byte(final)); err == nil || !(errors.Is(err, ErrDenied) || errors.As(err, &m)) {
			t.Fatalf("final: %v", err)
		}
	})
}
