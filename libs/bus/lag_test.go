package bus

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// plainly decodes by encoding/json alone.
func plainly(text []byte) (m Lag, err error) {
	err = json.Unmarshal(text, &m)
	return m, err
}

// sameAsPlainly checks that what decodeLag reads is what encoding/json reads.
func sameAsPlainly(t *testing.T, text []byte) (read bool) {
	t.Helper()
	var got Lag
	if !decodeLag(text, &got) {
		return false
	}
	if want, err := plainly(text); err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%q\nis read as %+v\nand plainly as %+v, %v", text, got, want, err)
	}
	return true
}

func TestLagsAreReadTheShortWay(t *testing.T) {
	files, err := filepath.Glob("testdata/v1/Lag.*.json")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !sameAsPlainly(t, []byte(strings.TrimSpace(string(text)))) {
			t.Errorf("%s takes the long way", file)
		}
	}
	encoded, err := Encode(someLag)
	if err != nil || !sameAsPlainly(t, encoded) {
		t.Errorf("what Encode writes takes the long way: %v", err)
	}
}

// What is not in the form that Encode writes is left to encoding/json, whether it is
// right or wrong.
func TestOtherFormsTakeTheLongWay(t *testing.T) {
	const least = `{"v":1,"backend":"r1"}`
	if !sameAsPlainly(t, []byte(least)) {
		t.Fatal("the least message takes the long way")
	}
	for _, text := range []string{
		``, `{`, `{}x`, `null`, `[]`, ` {"v":1}`, `{"v":1} `, `{"v": 1}`, `{"V":1}`, `{"v":1,}`, `{"v"}`, `{"v":}`, `{,"v":1}`, `{"v":1}}`,
		`{"v":01}`, `{"v":-01}`, `{"v":1.0}`, `{"v":1e3}`, `{"v":+1}`, `{"v":"1"}`, `{"v":null}`, `{"v":9223372036854775808}`, `{"v":99999999999999999999}`,
		`{"backend":"a\u0041"}`, `{"backend":"ä"}`, "{\"backend\":\"\xff\"}", "{\"backend\":\"\n\"}", `{"backend":"a`, `{"backend":null}`,
		`{"healthy":True}`, `{"healthy":tru}`, `{"healthy":truefalse}`, `{"later":1}`, `{"incarnation":{"later":1}}`, `{"geometry":{"later":1}}`,
		`{"incarnation":{"system_id":1}}`, `{"incarnation":{"system_id":""}}`, `{"incarnation":{"system_id":"-1"}}`, `{"incarnation":{"timeline":-1}}`, `{"incarnation":{"timeline":4294967296}}`,
		`{"replay_lsn":"1"}`, `{"replay_lsn":"1/"}`, `{"replay_lsn":"1/g"}`, `{"replay_lsn":"123456789/1"}`, `{"replay_lsn":"+1/1"}`, `{"replay_lsn":"1/2/3"}`,
		`{"lag_ms":.5}`, `{"lag_ms":5.}`, `{"lag_ms":1e400}`, `{"lag_ms":0x1p2}`, `{"lag_ms":inf}`, `{"lag_ms":1_0}`, `{"lag_ms":-}`, `{"lag_ms":1`,
		`{"seq":-1}`, `{"seq":18446744073709551616}`, `{"at":"yesterday"}`, `{"at":1}`,
	} {
		if sameAsPlainly(t, []byte(text)) {
			t.Errorf("%q takes the short way", text)
		}
	}
}

// Decoding allocates the message and the texts in it, and nothing else.
func TestDecodingALagAllocatesLittle(t *testing.T) {
	text, err := Encode(someLag)
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() {
		if _, err := Decode[Lag](text); err != nil {
			t.Fatal(err)
		}
	}); n > 6 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzLag(f *testing.F) {
	for _, text := range []string{
		`{"v":1,"backend":"x","replay_lsn":"0/0","at":"2000-01-01T00:00:00Z"}`, `{"incarnation":{"timeline":1},"incarnation":{"children_start_us":2}}`,
		`{"v":1,"v":2,"role":"other","lag_ms":-0.25,"lag_bytes":-1,"seq":18446744073709551615}`, `{"at":"2024-02-30T00:00:00+01:00"}`, `{"lag_ms":-0,"geometry":{}}`,
	} {
		f.Add([]byte(text))
	}
	encoded, err := Encode(someLag)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(encoded)
	f.Fuzz(func(t *testing.T, text []byte) { sameAsPlainly(t, text) })
}
