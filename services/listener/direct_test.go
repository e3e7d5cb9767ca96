package main

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/lab"
	"github.com/pgpilot/pgpilot/libs/lab/labtest"
)

const (
	v3        = 3 << 16
	cancelReq = 1234<<16 | 5678
	sslReq    = 1234<<16 | 5679
)

// packet is a startup packet.
func packet(code uint32, body string) string {
	b := binary.BigEndian.AppendUint32(nil, uint32(8+len(body)))
	return string(binary.BigEndian.AppendUint32(b, code)) + body
}

// response is a SASL response.
func response(body string) string {
	return "p" + string(binary.BigEndian.AppendUint32(nil, uint32(4+len(body)))) + body
}

// initial is a SASLInitialResponse that announces n bytes.
func initial(mechanism string, n int, data string) string {
	return response(mechanism + "\x00" + string(binary.BigEndian.AppendUint32(nil, uint32(int32(n)))) + data)
}

func first(data string) string { return initial("SCRAM-SHA-256", len(data), data) }

// ask sends bytes in one write, ends its half of the connection, and gives all that
// comes back.
func ask(t *testing.T, port, send string) string {
	t.Helper()
	c, err := net.Dial("tcp", "127.0.0.1:"+port)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, send); err != nil {
		t.Fatal(err)
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(c)
	if err != nil {
		t.Fatalf("%v after %q", err, b)
	}
	return string(b)
}

var (
	// sourceOf is where in PostgreSQL's source an error was raised, which nobody else
	// can tell.
	sourceOf   = regexp.MustCompile(`F[a-z-]+\.c\x00L\d+\x00R\w+\x00`)
	serverSays = regexp.MustCompile(`(r=abc)[^,]+(,s=)[^,]+`)
	newest     = regexp.MustCompile(`(server supports 3\.0 to 3\.)\d`)
)

// plain leaves out what differs between any two servers.
func plain(answer string) string {
	answer = sourceOf.ReplaceAllString(answer, "")
	answer = serverSays.ReplaceAllString(answer, "$1…$2…")
	answer = newest.ReplaceAllString(answer, "${1}N")
	// The length of an error follows from its text.
	return regexp.MustCompile(`E\x00\x00..SFATAL`).ReplaceAllString(answer, "E….SFATAL")
}

// Every line was an accident of some proxy, or would be one.
func TestStartupTrapsAreAnsweredAsByPostgreSQL(t *testing.T) {
	server := labtest.Start(t, 0)
	l := start(t, func(c *config.Config) {
		c.Users = []config.User{{Name: lab.User, Password: lab.Password}}
		c.Limits.LoginTimeout = config.Duration(patience)
	})
	direct := strconv.Itoa(server.Primary().Port)

	user := "user\x00" + lab.User + "\x00"
	session := packet(v3, user+"\x00")
	proof := strings.Repeat("A", 43) + "="
	for _, c := range []struct{ name, send string }{
		{"nothing", ""},
		{"half a length", "\x00\x00"},
		{"a packet that does not end", packet(v3, user)[:20]},
		{"protocol 1", packet(1<<16, strings.Repeat("a", 64))},
		{"protocol 2", packet(2<<16, strings.Repeat("a", 64))},
		{"protocol 4", packet(4<<16, user+"\x00")},
		{"SSL, then nothing", packet(sslReq, "")},
		{"data behind SSLRequest", packet(sslReq, "") + session},
		{"no user", packet(v3, "database\x00x\x00\x00")},
		{"empty user", packet(v3, "user\x00\x00\x00")},
		{"no parameters", packet(v3, "\x00")},
		{"no terminator", packet(v3, user)},
		{"no value", packet(v3, "user\x00")},
		{"no name's end", packet(v3, "user")},
		{"empty packet", packet(v3, "")},
		{"bytes behind the terminator", packet(v3, user+"\x00xx\x00")},
		{"replication of nonsense", packet(v3, user+"replication\x00bad\x00\x00")},
		{"replication of nothing", packet(v3, user+"replication\x00\x00\x00")},
		{"replication=off", packet(v3, user+"replication\x00off\x00\x00")},
		{"replication=F", packet(v3, user+"replication\x00F\x00\x00")},
		{"unknown protocol options", packet(v3, user+"_pq_.foo\x00bar\x00_pq_.baz\x00q\x00\x00")},
		{"unknown setting", packet(v3, user+"nosuchsetting\x00bar\x00\x00")},
		{"user twice", packet(v3, "user\x00other\x00"+user+"\x00")},
		{"longest packet", packet(v3, user+"application_name\x00"+strings.Repeat("x", 9000)+"\x00\x00")},
		{"cancel", packet(cancelReq, "\x00\x00\x00\x01\x00\x00\x00\x02")},
		{"cancel without a key", packet(cancelReq, "\x00\x00\x00\x01")},
		{"query instead of a response", session + "Q\x00\x00\x00\x06a\x00"},
		{"response of length 3", session + "p\x00\x00\x00\x03"},
		{"response of 100000 bytes", session + "p\x00\x01\x86\xa0xxxx"},
		{"another mechanism", session + initial("FOO", -1, "")},
		{"mechanism without an end", session + response("FO")},
		{"no mechanism", session + response("")},
		{"no initial response", session + initial("SCRAM-SHA-256", -1, "")},
		{"initial response later", session + initial("SCRAM-SHA-256", -1, "") + response("n,,n=,r=abc")},
		{"initial response too short", session + initial("SCRAM-SHA-256", 50, "")},
		{"initial response too long", session + initial("SCRAM-SHA-256", 1, "n,,n=,r=abc")},
		{"first message", session + first("n,,n=,r=abc")},
		{"first message, y", session + first("y,,n=,r=abc")},
		{"first message with an extension", session + first("n,,n=,r=abc,x=ext")},
		{"channel binding", session + first("p=tls-server-end-point,,n=,r=abc")},
		{"authorization identity", session + first("n,a=x,n=,r=abc")},
		{"attribute x", session + first("n,x,n=,r=abc")},
		{"mandatory extension", session + first("n,,m=x,n=,r=abc")},
		{"garbage", session + first("garbage")},
		{"empty message", session + first("")},
		{"zero byte", session + first("n,,n=,r=abc\x00def")},
		{"unprintable nonce", session + first("n,,n=,r=a\x01c")},
		{"wrong nonce", session + first("n,,n=,r=abc") + response("c=biws,r=abcd,p="+proof)},
		{"empty final message", session + first("n,,n=,r=abc") + response("")},
		{"unknown user, first message", packet(v3, "user\x00nobody\x00\x00") + first("n,,n=,r=abc")},
	} {
		t.Run(c.name, func(t *testing.T) {
			want, got := plain(ask(t, direct, c.send)), plain(ask(t, l.port, c.send))
			if c.name == "wrong nonce" { // the nonce and the proof are judged in one step here
				want = strings.ReplaceAll(want, "Nonce does", "Nonce or proof does")
			}
			if got != want {
				t.Errorf("\n     got %q\ndirectly %q", got, want)
			}
		})
	}
}

// What PostgreSQL leaves without an answer, or its older versions do otherwise.
func TestStartupTrapsWithAnAnswerOfTheirOwn(t *testing.T) {
	l := start(t, nil)
	session := "user\x00alice\x00\x00"
	sasl := "R\x00\x00\x00\x17\x00\x00\x00\x0aSCRAM-SHA-256\x00\x00"
	for _, c := range []struct{ name, send, want string }{
		{"length 3", "\x00\x00\x00\x03", "invalid length of startup packet"},
		{"length 4", "\x00\x00\x00\x04", "invalid length of startup packet"},
		{"negative length", "\xff\xff\xff\xf0", "invalid length of startup packet"},
		{"1 GB", "\x40\x00\x00\x00", "invalid length of startup packet"},
		{"a web browser", "GET / HTTP/1.1\r\n\r\n", "invalid length of startup packet"},
		{"SSL twice", packet(sslReq, ""), "N"},
		{"3.2", packet(v3+2, session), sasl},
		{"3.1", packet(v3+1, session), sasl},
		{"3.9999", packet(v3+9999, session), "v\x00\x00\x00\x0c\x00\x03\x00\x02\x00\x00\x00\x00" + sasl},
		{"3.2 with an option", packet(v3+2, "_pq_.x\x001\x00"+session), "v\x00\x00\x00\x13\x00\x03\x00\x02\x00\x00\x00\x01_pq_.x\x00" + sasl},
		{"3.0 with an option", packet(v3, "_pq_.x\x001\x00"+session), "v\x00\x00\x00\x13\x00\x03\x00\x00\x00\x00\x00\x01_pq_.x\x00" + sasl},
		{"cancel, key of 32 bytes", packet(cancelReq, strings.Repeat("k", 36)), ""},
		{"cancel, key of 257 bytes", packet(cancelReq, strings.Repeat("k", 261)), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := ask(t, l.port, c.send)
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if strings.HasPrefix(c.want, "invalid") && !strings.Contains(got, "C08P01\x00") {
				t.Errorf("got %q, want code 08P01", got)
			}
		})
	}
}

// A startup packet may come in pieces of any size, also behind declined encryption.
func TestStartupInPieces(t *testing.T) {
	l := start(t, nil)
	c, err := net.Dial("tcp", "127.0.0.1:"+l.port)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	pieces := func(s string) {
		for i := range len(s) {
			if _, err := io.WriteString(c, s[i:i+1]); err != nil {
				t.Fatal(err)
			}
		}
	}
	expect := func(want string) {
		got := make([]byte, len(want))
		if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
			t.Fatalf("got %q, %v; want %q", got, err, want)
		}
	}
	pieces(packet(sslReq, ""))
	expect("N")
	pieces(packet(sslReq+1, "")) // GSSENCRequest
	expect("N")
	pieces(packet(v3, "user\x00alice\x00\x00"))
	expect("R\x00\x00\x00\x17\x00\x00\x00\x0aSCRAM-SHA-256\x00\x00")
	pieces(first("n,,n=,r=abc"))
	header := make([]byte, 9)
	if _, err := io.ReadFull(c, header); err != nil || !bytes.Equal(header[:1], []byte("R")) || header[8] != 11 {
		t.Fatalf("got %q, %v", header, err)
	}
}

// Whoever logs in slowly or not at all is cut off, and holds no place afterwards.
func TestLoginTimeout(t *testing.T) {
	l := start(t, func(c *config.Config) { c.Limits.LoginTimeout = config.Duration(100 * time.Millisecond) })
	for _, c := range []struct{ send, want string }{
		{"", ""}, // before the startup packet there is nobody to talk to
		{packet(v3, "user\x00alice\x00\x00"), "C57014\x00Mcanceling authentication due to timeout\x00"},
	} {
		conn, err := net.Dial("tcp", "127.0.0.1:"+l.port)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, c.send); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(conn)
		if err != nil || c.want == "" && len(got) > 0 || !bytes.Contains(got, []byte(c.want)) {
			t.Errorf("after %q: %q, %v", c.send, got, err)
		}
	}
	l.wait("the place is free", func() bool { return l.gauge("pgpilot_listener_clients") == 0 })
}

func TestManyClientsAtOnce(t *testing.T) {
	l := start(t, nil)
	r := l.router(newRouter("1"))
	const n = 60
	errs := make(chan error, n)
	for i := range n {
		go func() {
			c, err := l.dial("alice", "pencil")
			if err == nil && i%2 == 0 {
				l.close(c)
			}
			errs <- err
		}()
	}
	pids := map[uint32]bool{}
	for range n {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	for len(r.Offered) > 0 {
		pids[(<-r.Offered).Cancel.PID] = true
	}
	if len(pids) != n {
		t.Errorf("%d cancel keys for %d sessions", len(pids), n)
	}
	l.wait("only the open half counts", func() bool { return l.gauge("pgpilot_listener_clients") == n/2 })
	l.wait("nobody is on the way in", func() bool {
		return l.gauge("pgpilot_listener_logins")+l.gauge("pgpilot_listener_parked") == 0
	})
}
