package handoff

import (
	"bytes"
	"encoding/binary"
	"os"
	"reflect"
	"strings"
	"testing"
)

// payload puts a record together of JSON.
func payload(js, unread string) []byte {
	return append(append(binary.BigEndian.AppendUint32(nil, uint32(len(js))), js...), unread...)
}

// What is read of a record is the same in every version, and everything else stays.
func TestParcels(t *testing.T) {
	for name, c := range map[string]struct {
		payload []byte
		want    Parcel
	}{
		"of this version":    {file(t, "v2-live"), Parcel{Session: "l1-7", Held: []bool{true}, Unread: true}},
		"of the one before":  {file(t, "v1-live"), Parcel{Session: "l1-7", Unread: true}},
		"from its login":     {file(t, "v1-login"), Parcel{Session: "l1-7", Unread: true}},
		"of one that comes":  {payload(`{"v":99,"session":"l1-7","cancel":{"pid":42,"secret":"AQIDBA=="},"live":{"leases":[{"idle":true},{"new":1}],"status":{"other":"?"}}}`, ""), Parcel{Session: "l1-7", Held: []bool{false, true}}},
		"with nothing in it": {payload(`{"session":"l1-7","cancel":{"pid":42,"secret":"AQIDBA=="},"live":{}}`, "x"), Parcel{Session: "l1-7", Unread: true}},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := OpenParcel(c.payload)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(p.Payload(), c.payload) {
				t.Error("the record is not what came")
			}
			if p.Cancel.PID != 42 || !bytes.Equal(p.Cancel.Secret, []byte{1, 2, 3, 4}) {
				t.Errorf("its cancel key is %+v", p.Cancel)
			}
			p.Cancel, p.payload, p.js = CancelKey{}, nil, 0
			if !reflect.DeepEqual(*p, c.want) {
				t.Errorf("%+v, want %+v", *p, c.want)
			}
		})
	}
	for name, b := range map[string][]byte{
		"nothing": {}, "cut": {0, 0, 0, 9, '{'}, "not JSON": payload("x", ""), "no session": payload(`{"live":{}}`, ""), "another kind of session": payload(`{"session":7}`, ""),
	} {
		if p, err := OpenParcel(b); err == nil {
			t.Errorf("%s: %+v, want an error", name, p)
		}
	}
}

func file(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name + ".record")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The mark of a cancel request changes nothing else.
func TestCanceledParcels(t *testing.T) {
	want := sample()
	b, err := want.Encode()
	if err != nil {
		t.Fatal(err)
	}
	p, err := OpenParcel(b)
	if err != nil {
		t.Fatal(err)
	}
	marked, err := p.Canceled()
	if err != nil {
		t.Fatal(err)
	}
	want.Live.Canceled = true
	if got, err := DecodeRecord(marked); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	if !bytes.Equal(p.Payload(), b) {
		t.Error("the record as it came has changed")
	}
	for name, c := range map[string]struct{ js, want string }{
		"of a later version": {`{"v":99,"session":"s","live":{"n":1.50,"s":"<é>","a":[{"x":null}]}}`, `{"live":{"a":[{"x":null}],"canceled":true,"n":1.50,"s":"<é>"},"session":"s","v":99}`},
		"not greeted":        {`{"v":1,"session":"s"}`, `{"v":1,"session":"s"}`},
		"null":               {`{"v":1,"session":"s","live":null}`, `{"v":1,"session":"s","live":null}`},
		"full":               {`{"session":"s","live":{"a":"` + strings.Repeat("x", MaxRecord-40) + `"}}`, `{"session":"s","live":{"a":"` + strings.Repeat("x", MaxRecord-40) + `"}}`},
	} {
		p, err := OpenParcel(payload(c.js, "unread"))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got, err := p.Canceled(); err != nil || !bytes.Equal(got, payload(c.want, "unread")) {
			t.Errorf("%s: %.100q, %v", name, got, err)
		}
	}
}

// What is too long to be sent is not encoded: the connection that it would have gone by is
// not to blame.
func TestRecordsThatAreTooLong(t *testing.T) {
	r := sample()
	r.Unread = make([]byte, maxBody)
	if b, err := r.Encode(); err == nil {
		t.Errorf("%d bytes are encoded", len(b))
	}
}

func FuzzOpenParcel(f *testing.F) {
	good, err := sample().Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(payload(`{"session":"s","live":{"canceled":false}}`, "Q"))
	f.Fuzz(func(t *testing.T, b []byte) {
		came := bytes.Clone(b)
		p, err := OpenParcel(b)
		if err != nil {
			return
		}
		marked, err := p.Canceled()
		if err != nil {
			t.Fatalf("%q cannot be marked: %v", b, err)
		}
		again, err := OpenParcel(marked)
		if err != nil || again.Session != p.Session || again.Unread != p.Unread || len(again.Held) != len(p.Held) {
			t.Fatalf("%q becomes %q: %+v, %v", b, marked, again, err)
		}
		if !bytes.Equal(p.Payload(), came) {
			t.Fatalf("%q has become %q", came, p.Payload())
		}
	})
}
