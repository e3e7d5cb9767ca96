package startup

import (
	"encoding/binary"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/services/listener/internal/refusal"
)

func body(version uint32, rest string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, version), rest...)
}

func TestParse(t *testing.T) {
	both := Encryption{SSL: true, GSS: true}
	long := strings.Repeat("é", 40) // 80 bytes; a cut at byte 63 splits a character
	for _, c := range []struct {
		name string
		b    []byte
		may  Encryption
		want *Packet
	}{
		{"everything", body(Version30, "user\x00u\x00database\x00d\x00b\x001\x00a\x002\x00\x00"), both,
			&Packet{Version: Version30, User: "u", Database: "d", Parameters: []handoff.Parameter{{Name: "b", Value: "1"}, {Name: "a", Value: "2"}}}},
		{"database is the user", body(Version30, "user\x00u\x00\x00"), both, &Packet{Version: Version30, User: "u", Database: "u"}},
		{"empty database is the user", body(Version30, "user\x00u\x00database\x00\x00\x00"), both, &Packet{Version: Version30, User: "u", Database: "u"}},
		{"last user wins", body(Version30, "user\x00u\x00user\x00v\x00\x00"), both, &Packet{Version: Version30, User: "v", Database: "v"}},
		{"long names", body(Version30, "user\x00"+long+"\x00\x00"), both, &Packet{Version: Version30, User: long[:63], Database: long[:63]}},
		{"3.2", body(Version32, "user\x00u\x00\x00"), both, &Packet{Version: Version32, User: "u", Database: "u"}},
		{"newer minor", body(3<<16|5, "user\x00u\x00\x00"), both, &Packet{Version: Version32, Negotiate: true, User: "u", Database: "u"}},
		{"options of the protocol", body(Version30, "_pq_.x\x001\x00user\x00u\x00\x00"), both,
			&Packet{Version: Version30, Negotiate: true, Unknown: []string{"_pq_.x"}, User: "u", Database: "u"}},
		{"replication off", body(Version30, "replication\x00no\x00user\x00u\x00\x00"), both, &Packet{Version: Version30, User: "u", Database: "u"}},
		{"replication", body(Version30, "replication\x00tru\x00user\x00u\x00a\x001\x00\x00"), both,
			&Packet{Version: Version30, User: "u", Database: "u", Replication: "tru", Parameters: []handoff.Parameter{{Name: "a", Value: "1"}}}},
		{"replication of a database", body(Version30, "replication\x00database\x00user\x00u\x00\x00"), both, &Packet{Version: Version30, User: "u", Database: "u", Replication: "database"}},
		{"last replication wins", body(Version30, "replication\x00on\x00replication\x00off\x00user\x00u\x00\x00"), both, &Packet{Version: Version30, User: "u", Database: "u"}},
		{"SSL", body(codeSSL, ""), both, &Packet{Kind: SSL}},
		{"GSS", body(codeGSS, ""), both, &Packet{Kind: GSS}},
		{"cancel", body(codeCancel, "\x00\x00\x00\x07abcd"), Encryption{}, &Packet{Kind: Cancel, Key: handoff.CancelKey{PID: 7, Secret: []byte("abcd")}}},
		{"cancel with a long key", body(codeCancel, "\x00\x00\x00\x07"+strings.Repeat("k", 256)), both,
			&Packet{Kind: Cancel, Key: handoff.CancelKey{PID: 7, Secret: []byte(strings.Repeat("k", 256))}}},
	} {
		if got, err := Parse(c.b, c.may); err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %+v, %v; want %+v", c.name, got, err, c.want)
		}
	}
	for _, c := range []struct {
		name string
		b    []byte
		code string // empty: no answer
	}{
		{"SSL twice", body(codeSSL, ""), refusal.FeatureNotSupported},
		{"no version", []byte{0, 3}, refusal.ProtocolViolation},
		{"ambiguous boolean", body(Version30, "replication\x00o\x00user\x00u\x00\x00"), refusal.InvalidParameter},
		{"no user", body(Version30, "\x00"), refusal.InvalidAuthorization},
		{"cancel without a secret", body(codeCancel, "\x00\x00\x00\x07"), ""},
		{"cancel with too long a secret", body(codeCancel, strings.Repeat("k", 261)), ""},
	} {
		_, err := Parse(c.b, Encryption{})
		var r *refusal.Refusal
		if err == nil || errors.As(err, &r) != (c.code != "") || r != nil && r.Code != c.code {
			t.Errorf("%s: got %v, want %q", c.name, err, c.code)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(body(Version30, "user\x00u\x00database\x00d\x00_pq_.x\x00y\x00\x00"))
	f.Add(body(Version32, "user\x00\x00replication\x00off\x00\x00"))
	f.Add(body(2<<16, strings.Repeat("a", 64)))
	f.Add(body(codeCancel, "\x00\x00\x00\x01abcd"))
	f.Add(body(codeSSL, ""))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := Parse(b, Encryption{SSL: true})
		if err != nil {
			return
		}
		if p.Kind == Session {
			if p.User == "" || p.Database == "" || len(p.User) > maxName || len(p.Database) > maxName {
				t.Fatalf("names %q, %q", p.User, p.Database)
			}
			if p.Version < Version30 || p.Version > Version32 || p.Negotiate != (len(p.Unknown) > 0 || binary.BigEndian.Uint32(b) > Version32) {
				t.Fatalf("version %#x, negotiate %v", p.Version, p.Negotiate)
			}
			n := 0
			for _, q := range p.Parameters {
				if strings.IndexByte(q.Name+q.Value, 0) >= 0 || q.Name == "" || q.Name == "user" {
					t.Fatalf("parameter %+v", q)
				}
				n += len(q.Name) + len(q.Value) + 2
			}
			if n > len(b) {
				t.Fatalf("%d bytes of parameters from %d", n, len(b))
			}
		}
		if p.Kind == Cancel && (len(p.Key.Secret) == 0 || len(p.Key.Secret) > maxCancelSecret) {
			t.Fatalf("secret of %d bytes", len(p.Key.Secret))
		}
	})
}
