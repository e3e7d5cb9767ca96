package verdict

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/pgpilot/pgpilot/libs/bus"
	"github.com/pgpilot/pgpilot/libs/sqltoken"
)

// written are the verdicts in testdata/versions, by their names there. Each file was
// written by the build that first had its version; effects grew with version 3, and with Indelible
// within version 4: to a build from before, that is a statement that nobody has judged.
var written = map[string]Verdict{
	"read":       {Kind: Read, Fingerprint: 0xfedcba9876543210},
	"write":      {},
	"effects":    {Effects: known &^ Indelible, Fingerprint: 1},
	"indelible":  {Effects: Session | Indelible, Fingerprint: 1},
	"generation": {Kind: Read, Fingerprint: 2, Generation: 1764488400000000},
	"passing":    {Effects: Unproven, Passing: true, Generation: 5},
	"detail": {Effects: Session, Generation: 5, Detail: &Detail{Parts: []Part{
		{Kind: Read, End: 8},
		{Effects: Session, Start: 9, End: 30, Settings: []Setting{{Name: Operand{Literal: 1}, Value: Operand{Param: 2}, Local: Operand{Word: "true"}}}, Rest: Sequences},
		{Effects: Session, Start: 31, End: 50, Prepare: &Prepare{Name: "p", Kind: Read}},
		{Effects: Unproven, Start: 51, End: 60, Execute: &Execute{Name: "p", Kind: Read}},
	}}},
}

// corpusOf reads a file of testdata/versions: a name and what was written, on each line.
func corpusOf(t *testing.T, file string) map[string]string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata/versions", file))
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string]string)
	for line := range strings.Lines(string(b)) {
		name, what, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok {
			t.Fatalf("%s: %q", file, line)
		}
		out[name] = what
	}
	return out
}

func TestFramesOfEveryVersion(t *testing.T) {
	request := Request{Key: sqltoken.Key{1, 2, 15: 3}, Database: "app", Text: "SELECT 'grün'"}
	for version := Version(1); version <= Newest; version++ {
		frames := corpusOf(t, fmt.Sprintf("v%d.hex", version))
		if len(frames) < 4 || version == Newest && len(frames) != len(written)+2 {
			t.Fatalf("version %d has %d frames", version, len(frames))
		}
		for name, text := range frames {
			frame, err := hex.DecodeString(text)
			if err != nil {
				t.Fatal(err)
			}
			if name == "request" {
				r := NewRequestReader(bytes.NewReader(frame), 100)
				id, got, err := r.Next()
				switch {
				case id != 11:
					t.Errorf("version %d: the request has id %d", version, id)
				case version < Oldest:
					if !errors.Is(err, ErrVersion) {
						t.Errorf("version %d: %+v, %v; want ErrVersion", version, got, err)
					}
				case err != nil || got != request || r.Version() != version:
					t.Errorf("version %d: %+v in %d, %v", version, got, r.Version(), err)
				}
				continue
			}
			r := NewResponseReader(bytes.NewReader(frame))
			id, got, err := r.Next()
			if id == 0 || r.Version() != version {
				t.Errorf("version %d, %s: id %d in version %d", version, name, id, r.Version())
			}
			switch {
			case version < Oldest:
				if !errors.Is(err, ErrVersion) {
					t.Errorf("version %d, %s: %+v, %v; want ErrVersion", version, name, got, err)
				}
				continue
			case name == "none":
				if !errors.Is(err, ErrNoVerdict) {
					t.Errorf("version %d: %+v, %v; want ErrNoVerdict", version, got, err)
				}
				if again := version.AppendNoVerdict(nil, id); !bytes.Equal(again, frame) {
					t.Errorf("version %d, %s: written as %x now", version, name, again)
				}
				continue
			}
			if want, ok := written[name]; !ok || err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("version %d, %s: got %+v, %v; want %+v", version, name, got, err, want)
			}
			if again := version.AppendResponse(nil, id, got); !bytes.Equal(again, frame) {
				t.Errorf("version %d, %s: written as %x now", version, name, again)
			}
		}
	}
}

// Messages have had one version so far, to which fields were added.
func TestMessagesOfEveryVersion(t *testing.T) {
	files, err := filepath.Glob("testdata/versions/*.jsonl")
	if err != nil || len(files) < int(Newest) {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for i, file := range files {
		for name, text := range corpusOf(t, filepath.Base(file)) {
			m, err := bus.Decode[bus.Verdict]([]byte(text))
			if err != nil {
				t.Errorf("%s, %s: %v", file, name, err)
				continue
			}
			want := written[name]
			if i < 2 {
				want.Effects &^= Sequences
			}
			if key, got, err := FromMessage(m); err != nil || key != (sqltoken.Key{1, 2, 15: 3}) || !reflect.DeepEqual(got, want) {
				t.Errorf("%s, %s: got %+v, %v; want %+v", file, name, got, err, want)
			}
		}
	}
}

// A version that cannot say everything says what matters.
func TestThePreviousVersionLeavesOutTheDetail(t *testing.T) {
	v := written["detail"]
	_, got, err := NewResponseReader(bytes.NewReader(Oldest.AppendResponse(nil, 1, v))).Next()
	if v.Detail = nil; err != nil || got != v {
		t.Fatalf("got %+v, %v; want %+v", got, err, v)
	}
}

// answerIn answers in a version.
func (q *question) answerIn(t *testing.T, version Version, v Verdict) {
	t.Helper()
	if _, err := q.conn.Write(version.AppendResponse(nil, q.id, v)); err != nil {
		t.Fatal(err)
	}
}

// A classifier of the previous version answers what it does not understand in its own
// version, and is asked again in that; what it says of the first question is no verdict.
func TestAnOlderClassifierIsAskedInItsVersion(t *testing.T) {
	d := runDir(t)
	s := startClassifier(t, d, "1")
	c := newClient(t, d, func(o *Options) {
		o.Late = func(string, sqltoken.Key, Verdict) { t.Error("a misunderstanding was taken for a late verdict") }
	})
	connected(t, c, 1)
	got := put(c, "SELECT 1")
	q := s.next()
	if q.version != Newest {
		t.Fatalf("asked in version %d", q.version)
	}
	q.answerIn(t, Oldest, Unclassified())
	q = s.next()
	if q.version != Oldest || q.Text != "SELECT 1" || len(got) != 0 {
		t.Fatalf("asked %q in version %d, %d answers", q.Text, q.version, len(got))
	}
	q.answerIn(t, Oldest, Verdict{Kind: Read})
	if d := wait(t, got); d.err != nil || d.v.Kind != Read {
		t.Fatalf("got %+v", d)
	}
	got = put(c, "SELECT 22") // it is known now
	if q = s.next(); q.version != Oldest {
		t.Fatalf("asked in version %d", q.version)
	}
	q.answerIn(t, Oldest, Verdict{Kind: Read})
	if d := wait(t, got); d.err != nil || d.v.Kind != Read {
		t.Fatalf("got %+v", d)
	}

	// The next one may be newer.
	s.kill()
	connected(t, c, 0)
	s = startClassifier(t, d, "2")
	connected(t, c, 1)
	got = put(c, "SELECT 333")
	if q = s.next(); q.version != Newest {
		t.Fatalf("asked in version %d", q.version)
	}
	c.SetTimeout(0)
	timedOut := put(c, "SELECT 4444")
	late := s.next()
	wantError(t, timedOut, ErrTimeout)
	late.answerIn(t, Oldest, Unclassified())
	q.answerIn(t, Newest, Verdict{Kind: Read})
	if d := wait(t, got); d.err != nil || d.v.Kind != Read {
		t.Fatalf("got %+v", d)
	}
}

// A classifier further away costs each question its verdict, and not the connection.
func TestAClassifierOfAnUnknownVersionJudgesNothing(t *testing.T) {
	d := runDir(t)
	s := startClassifier(t, d, "1")
	c := newClient(t, d, nil)
	connected(t, c, 1)
	for _, version := range []Version{Newest + 1, Oldest - 1} {
		got := put(c, "SELECT 1")
		s.next().answerIn(t, version, Verdict{Kind: Read})
		wantError(t, got, ErrVersion)
	}
	connected(t, c, 1)
}
