package handoff

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"reflect"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pgpilot/pgpilot/libs/lsn"
)

// pair gives two connected ends.
func pair(t *testing.T) (*Conn, *Conn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var out [2]*Conn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "pair")
		c, err := net.FileConn(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		out[i] = NewConn(c.(*net.UnixConn))
		t.Cleanup(func() { out[i].Close() })
	}
	return out[0], out[1]
}

func openFDs(t *testing.T) int {
	t.Helper()
	es, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(es)
}

func sample() *Record {
	return &Record{
		Session: "l1-7", User: "pgpilot", Database: "app", Client: "127.0.0.1:5", Protocol: 3 << 16,
		Startup: []Parameter{{"application_name", "psql"}, {"options", "-c geqo=off"}},
		Cancel:  CancelKey{PID: 42, Secret: []byte{1, 2, 3, 4}},
		Live: &Live{
			Shown: []Parameter{{"TimeZone", "UTC"}}, Fence: Fence{Position: lsn.Position{Timeline: 1, LSN: 0x500}, Dirty: true},
			Pin: "session state", LastRoute: &Route{Backend: "p0", Role: "primary", Reason: "write"},
			Status: "T", Written: true, Settings: []Setting{{"timezone", "timezone = 'UTC'"}}, Channels: []string{"news"}, Epoch: 3,
			Levels:  []Level{{Changes: []Change{{Setting{"role", "role app"}, "set"}}}, {Savepoint: "s"}},
			Portals: []Portal{{Name: []byte("p\xe9"), Statement: 1}},
			Leases: []Lease{{
				Backend: "p0", Address: "127.0.0.1:5432", Run: lsn.Incarnation{SystemID: 1, Timeline: 1, Postmaster: 5, Children: 6},
				PID: 99, Secret: []byte{9, 8, 7, 6}, Parameters: []Parameter{{"server_version", "15.4"}}, AgeMicros: 5e6, Used: true, Settings: []byte{1},
				Statements: []Held{{Name: []byte("pgpilot_x"), Params: []byte{1, 2}}}, Unnamed: &Held{Name: []byte{7}, Stale: true},
			}},
			Prepared: []Prepared{
				{Text: []byte("SELECT '\xff'"), Kind: "write", Effects: []string{"unproven"}},
				{
					Name: []byte("q\xe9"), Text: []byte("SELECT $1"), Types: []uint32{23}, Kind: "read", Fingerprint: 1<<64 - 1,
					Params: []byte{1, 2}, Rows: []byte{3, 4},
				},
			},
		},
		Unread: []byte("Q\x00\x00"),
	}
}

func TestSessionTravelsWithItsSocket(t *testing.T) {
	a, b := pair(t)
	client, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(client[0])
	want := sample()
	if err := a.SendSession(want, client[1]); err != nil {
		t.Fatal(err)
	}
	unix.Close(client[1])
	m, err := b.Receive()
	if err != nil || m.Type != TypeSession || len(m.FDs) != 1 {
		t.Fatalf("received %+v, %v; want a session with one descriptor", m, err)
	}
	defer CloseFDs(m.FDs)
	got, err := DecodeRecord(m.Body)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("decoded %+v, %v; want %+v", got, err, want)
	}
	fl, err := unix.FcntlInt(uintptr(m.FDs[0]), unix.F_GETFD, 0)
	if err != nil || fl&unix.FD_CLOEXEC == 0 {
		t.Fatalf("received descriptor is inherited by children (flags %d, %v)", fl, err)
	}
	if _, err := unix.Write(m.FDs[0], []byte("hello")); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 8)
	if n, err := unix.Read(client[0], buf); err != nil || string(buf[:n]) != "hello" {
		t.Fatalf("client read %q, %v", buf[:n], err)
	}
}

func TestMessagesKeepTheirOrderAndTheirDescriptors(t *testing.T) {
	a, b := pair(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	fd, err := Dup(r)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	big := sample()
	big.Unread = bytes.Repeat([]byte("x"), 3<<20) // far above a socket buffer: partial sends
	sent := make(chan error, 1)
	go func() {
		err := a.Send(TypeHello, Hello{V: 1, Service: "listener", ID: "1"})
		if err == nil {
			err = a.SendSession(big, fd, fd)
		}
		if err == nil {
			err = a.Send(TypeAck, SessionRef{Session: "x"})
		}
		sent <- err
	}()
	for _, want := range []struct {
		t   Type
		fds int
	}{{TypeHello, 0}, {TypeSession, 2}, {TypeAck, 0}} {
		m, err := b.Receive()
		if err != nil || m.Type != want.t || len(m.FDs) != want.fds {
			t.Fatalf("received %q with %d descriptors, %v; want %+v", m.Type, len(m.FDs), err, want)
		}
		CloseFDs(m.FDs)
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	a.Close()
	if _, err := b.Receive(); !errors.Is(err, io.EOF) {
		t.Fatalf("after the peer closed: %v, want EOF", err)
	}
}

// A message that breaks off, is too long or carries too many descriptors must
// not leave one of them open.
func TestBrokenMessagesLeakNoDescriptor(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	many := make([]int, MaxFDs+4)
	for i := range many {
		many[i] = int(r.Fd())
	}
	for name, c := range map[string]struct {
		bytes []byte
		fds   []int
	}{
		"cut in the header":  {[]byte{0, 0}, many[:1]},
		"cut in the body":    {[]byte{0, 0, 0, 9, 'S', 'x'}, many[:2]},
		"zero length":        {[]byte{0, 0, 0, 0, 'S'}, many[:1]},
		"hostile length":     {[]byte{0xFF, 0xFF, 0xFF, 0xFF, 'S'}, many[:1]},
		"too many at once":   {[]byte{0, 0, 0, 1, 'S'}, many},
		"more than expected": {[]byte{0, 0, 0, 1, 'S'}, many[:MaxFDs+1]},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := pair(t)
			before := openFDs(t)
			if _, _, err := a.conn.WriteMsgUnix(c.bytes, unix.UnixRights(c.fds...), nil); err != nil {
				t.Fatal(err)
			}
			a.Close()
			if m, err := b.Receive(); err == nil {
				t.Fatalf("received %+v, want an error", m)
			}
			if after := openFDs(t); after != before-1 { // a's own end is closed
				t.Fatalf("%d descriptors open, want %d", after, before-1)
			}
		})
	}
}

// live gives the payload of a session that has been served.
func live(fields string) []byte {
	js := `{"v":2,"session":"s","user":"u","database":"d","live":{` + fields + `}}`
	return append([]byte{0, 0, 0, byte(len(js))}, js...)
}

// Who gets a record that it does not understand can still say which session it refuses.
func TestARecordOfALaterVersionNamesItsSession(t *testing.T) {
	js := fmt.Sprintf(`{"v":%d,"session":"1-a-7","user":"u","database":"d","live":{"status":"?"}}`, RecordVersion+1)
	r, err := DecodeRecord(append(binary.BigEndian.AppendUint32(nil, uint32(len(js))), js...))
	if err == nil || r == nil || r.Session != "1-a-7" || r.Live != nil {
		t.Errorf("%+v, %v; want an error and the session's name", r, err)
	}
}

func TestDecodeRecordRefuses(t *testing.T) {
	good, err := sample().Encode()
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{
		"nothing":       {},
		"no JSON":       {0, 0, 0, 9},
		"negative":      {0xFF, 0xFF, 0xFF, 0xFF, '{'},
		"not JSON":      {0, 0, 0, 1, 'x'},
		"newer version": append([]byte{0, 0, 0, 8}, `{"v":99}`...),
		"no session":    append([]byte{0, 0, 0, 7}, `{"v":1}`...),
		"cut":           good[:20],

		"a transaction without a connection": live(`"status":"T"`),
		"a status that is none":              live(`"status":"X"`),
		"a pin without a connection":         live(`"pin":"listen"`),
		"two connections":                    live(`"leases":[{},{}]`),
		"more connections than descriptors":  live(`"leases":[{"idle":true},{"idle":true},{"idle":true},{"idle":true},{"idle":true},{"idle":true},{"idle":true},{"idle":true}]`),
		"a portal of nothing":                live(`"portals":[{"statement":0}]`),
	} {
		if r, err := DecodeRecord(b); err == nil {
			t.Errorf("%s: decoded %+v, want an error", name, r)
		}
	}
}

// What the release before has written is taken as it was meant: testdata has one of each
// kind for every version. Only routers that are rolled together with their listeners speak
// of more.
func TestRecordsOfEarlierVersions(t *testing.T) {
	login := sample()
	login.Live = nil
	old := sample()
	old.Live = &Live{
		Shown: old.Live.Shown, Fence: old.Live.Fence, LastRoute: old.Live.LastRoute, Settings: old.Live.Settings, Prepared: old.Live.Prepared,
	}
	for name, want := range map[string]*Record{"v1-login": login, "v1-live": old, "v2-live": sample()} {
		t.Run(name, func(t *testing.T) {
			b, err := os.ReadFile("testdata/" + name + ".record")
			if err != nil {
				t.Fatal(err)
			}
			got, err := DecodeRecord(b)
			if err != nil {
				t.Fatal(err)
			}
			want.V = got.V
			if !reflect.DeepEqual(got, want) {
				t.Errorf("decoded %+v, want %+v", got, want)
			}
			if v := name[1] - '0'; got.V != int(v) {
				t.Errorf("it is of version %d", got.V)
			}
		})
	}
}

// A session from its login is written so that a router of the release before takes it.
func TestLoginsAreWrittenForTheReleaseBefore(t *testing.T) {
	r := sample()
	r.Live = nil
	if _, err := r.Encode(); err != nil || r.V != 1 {
		t.Errorf("version %d, %v", r.V, err)
	}
}

// What JSON would change on the way does not travel: its session stays where it is.
func TestRecordsKeepEveryByte(t *testing.T) {
	for name, ok := range map[string]bool{"caf\u00e9 \ufffd": true, `a\ufffd`: true, `a\\ufffd`: true, "caf\xe9": false, "\\\xe9": false} {
		r := sample()
		r.Live.Channels = []string{name}
		b, err := r.Encode()
		if (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
		if err != nil {
			continue
		}
		if got, err := DecodeRecord(b); err != nil || got.Live.Channels[0] != name {
			t.Errorf("%q comes back as %+v, %v", name, got, err)
		}
	}
}

func FuzzDecodeRecord(f *testing.F) {
	good, err := sample().Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte{0, 0, 0, 2, '{', '}'})
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := DecodeRecord(b)
		if err != nil {
			return
		}
		again, err := r.Encode()
		if err != nil {
			t.Fatalf("%+v decoded but does not encode: %v", r, err)
		}
		if back, err := DecodeRecord(again); err != nil || !bytes.Equal(back.Unread, r.Unread) {
			t.Fatalf("%+v comes back as %+v, %v", r, back, err)
		}
	})
}
