package bus

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/libs/lsn"
)

var someLag = Lag{
	V: Version, Backend: "r1", Address: "h:1", Role: Replica, Healthy: true,
	Incarnation: lsn.Incarnation{SystemID: 1 << 63, Timeline: 3, Postmaster: 10, Children: 20}, Geometry: lsn.DefaultGeometry,
	ServerVersion: 150018, ReplayLSN: 0x16_B374D848, LagBytes: -1, LagMillis: 1.5, Seq: 1 << 50, Publisher: "1", At: time.Unix(1, 2).UTC(),
}

func TestMessagesComeBackAsTheyWent(t *testing.T) {
	b, err := Encode(someLag)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Decode[Lag](b)
	if err != nil || !reflect.DeepEqual(got, someLag) {
		t.Fatalf("got %+v, %v\nfrom %s", got, err, b)
	}
	// The text is the interface: a position, a system id beyond 2^53, nothing for what does not apply.
	for _, want := range []string{`"replay_lsn":"16/B374D848"`, `"system_id":"9223372036854775808"`, `"v":1`} {
		if !strings.Contains(string(b), want) {
			t.Errorf("%s is not in %s", want, b)
		}
	}
	if strings.Contains(string(b), "insert_lsn") || strings.Contains(string(b), "error") {
		t.Errorf("a field that does not apply is in %s", b)
	}
}

func TestDecodeIgnoresWhatItDoesNotKnow(t *testing.T) {
	for name, c := range map[string]struct {
		in      string
		broken  bool
		version bool
	}{
		"a field of a newer publisher": {`{"v":1,"router":"1","position":{"timeline":1,"lsn":"0/1","more":2},"new":[1]}`, false, false},
		"a later version":              {`{"v":2,"router":"1"}`, true, true},
		"no version":                   {`{"router":"1"}`, true, true},
		"another kind of message":      {`{"v":1,"backends":[]}`, true, false},
		"a broken position":            {`{"v":1,"router":"1","position":{"timeline":1,"lsn":"1"}}`, true, false},
		"no JSON":                      {`+OK`, true, false},
		"nothing":                      {``, true, false},
	} {
		_, err := Decode[Want]([]byte(c.in))
		if (err != nil) != c.broken || errors.Is(err, ErrVersion) != c.version {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAnAnswerIsNotTakenForAnother(t *testing.T) {
	lags, err := Encode(LagSnapshot{V: Version, Backends: []Lag{}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Decode[Topology](lags); err == nil {
		t.Error("a lag snapshot was taken for a topology without members")
	}
	if _, err := Decode[Lag](lags); err == nil {
		t.Error("a lag snapshot was taken for the lag of a backend without a name")
	}
}

func TestEncodeRefusesWhatNobodyWouldTake(t *testing.T) {
	for name, err := range map[string]error{
		"no version": encodeError(Want{Router: "1"}),
		"no router":  encodeError(Want{V: Version}),
		"no list":    encodeError(LagSnapshot{V: Version}),
		"no members": encodeError(Topology{V: Version}),
		"no key":     encodeError(Verdict{V: Version, Database: "d"}),
		"no name":    encodeError(Flush{V: Version}),
		"nobody":     encodeError(VerdictSnapshot{V: Version, Verdicts: []Verdict{}}),
		"nothing":    encodeError(VerdictSnapshot{V: Version, Publisher: "1"}),
	} {
		if err == nil {
			t.Errorf("%s: encoded", name)
		}
	}
}

func encodeError[M Message](m M) error {
	_, err := Encode(m)
	return err
}

func TestSafeName(t *testing.T) {
	for in, want := range map[string]string{
		"replica1": "replica1", "127.0.0.1:5432": "127_0_0_1_5432", "a-b_C": "a-b_C", "": "_", "*": "_", ">": "_", "x y\n": "x_y_",
		"Größe": "Gr__e", "snapshot": "snapshot_", "flush": "flush_", "$SYS": "_SYS",
	} {
		if got := SafeName(in); got != want {
			t.Errorf("SafeName(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	b, err := json.Marshal(someLag)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{"v":1,"backend":"x","replay_lsn":"0/0","at":"2000-01-01T00:00:00Z"}`))
	f.Add([]byte(`{"v":1,"members":[{}]}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		m, err := Decode[Lag](in)
		if err != nil {
			return
		}
		if m.V != Version || m.Backend == "" {
			t.Fatalf("%q gave %+v", in, m)
		}
		again, err := Encode(m)
		if err != nil {
			t.Fatalf("%q decodes but does not encode: %v", in, err)
		}
		if n, err := Decode[Lag](again); err != nil || !reflect.DeepEqual(m, n) {
			t.Fatalf("%q gave %+v, then %+v (%v)", in, m, n, err)
		}
	})
}
