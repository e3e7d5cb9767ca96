package herald

import (
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/pgpilot/pgpilot/libs/bus"
	"github.com/pgpilot/pgpilot/libs/sqltoken"
	"github.com/pgpilot/pgpilot/libs/verdict"
	"github.com/pgpilot/pgpilot/services/classifier/internal/clerk"
)

// shelf is a scripted Clerk.
type shelf struct {
	generations map[string]uint64
	recent      []clerk.Known
	learned     []clerk.Known
	flushed     map[string]uint64
}

func (s *shelf) Generations() map[string]uint64 { return s.generations }
func (s *shelf) Recent(n int) []clerk.Known     { return s.recent[max(0, len(s.recent)-n):] }
func (s *shelf) Learn(k clerk.Known)            { s.learned = append(s.learned, k) }
func (s *shelf) Flushed(database string, generation uint64) bool {
	s.flushed[database] = generation
	return true
}

func desk(t *testing.T, s *shelf, build string) *Desk {
	return &Desk{Clerk: s, Instance: "1", Build: build, Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
}

// busPayload is what the bus carries in one message (512 kB), busPending what it keeps
// for one slow listener.
const (
	busPayload = 512 << 10
	busPending = 4 << 20
)

func TestASnapshotFitsTheBus(t *testing.T) {
	// The longest verdicts there are, of databases with names that JSON makes six times
	// as long, and with as much to tell as travels.
	every := verdict.Effect(0)
	for e := verdict.Effect(1); e != 0; e <<= 1 {
		if e.Names() != nil {
			every |= e
		}
	}
	s := &shelf{generations: map[string]uint64{"a": 7, "b": 8}}
	for i := range snapshotMost + 100 {
		s.recent = append(s.recent, clerk.Known{Database: fmt.Sprintf("%0255d", i), Key: sqltoken.Key{byte(i), byte(i >> 8)},
			Verdict: verdict.Verdict{Effects: every, Fingerprint: 1<<64 - 1, Generation: 1<<64 - 1}})
		switch i % 3 {
		case 1:
			s.recent[i].Database = strings.Repeat("\x01", longestName)
		case 2:
			s.recent[i].Verdict.Detail = &verdict.Detail{Parts: make([]verdict.Part, 230)}
			if !s.recent[i].Verdict.Detail.Travels() {
				t.Fatal("the detail is too long to be told")
			}
		}
	}
	const foreign = snapshotMost + 97
	s.recent[foreign].Database = strings.Repeat("x", longestName+1)
	var verdicts []bus.Verdict
	total := 0
	parts := desk(t, s, "v1").parts()
	for i, part := range parts {
		if part.Parts != len(parts) {
			t.Errorf("part %d says that there are %d, of %d", i, part.Parts, len(parts))
		}
		data, err := bus.Encode(part)
		if err != nil {
			t.Fatal(err)
		}
		if len(data) > busPayload*3/4 {
			t.Errorf("part %d has %d bytes", i, len(data))
		}
		if (len(part.Flushes) != 0) != (i == 0) {
			t.Errorf("part %d has %d flushes", i, len(part.Flushes))
		}
		total += len(data)
		verdicts = append(verdicts, part.Verdicts...)
	}
	if total > busPending {
		t.Errorf("all parts have %d bytes", total)
	}
	if total < snapshotSize/2 {
		t.Fatalf("%d verdicts in %d bytes", len(verdicts), total)
	}
	// They are the latest, in their order, without the one of a name that no database has.
	want := slices.Delete(slices.Clone(s.recent), foreign, foreign+1)
	want = want[len(want)-len(verdicts):]
	for i, m := range verdicts {
		if key, v, err := verdict.FromMessage(m); err != nil || m.Database != want[i].Database || key != want[i].Key || !reflect.DeepEqual(v, want[i].Verdict) {
			t.Fatalf("%d of %d came as %x, %+v, %v", i, len(verdicts), key, v, err)
		}
	}
}

func TestASnapshotHasAsManyAsItMay(t *testing.T) {
	s := &shelf{}
	for i := range snapshotMost + 100 {
		s.recent = append(s.recent, clerk.Known{Database: "app", Key: sqltoken.Key{byte(i), byte(i >> 8)}})
	}
	n := 0
	for _, part := range desk(t, s, "v1").parts() {
		n += len(part.Verdicts)
	}
	if n != snapshotMost {
		t.Errorf("%d verdicts, want %d", n, snapshotMost)
	}
}

func TestAnEmptySnapshotIsAnAnswer(t *testing.T) {
	parts := desk(t, &shelf{}, "v1").parts()
	if len(parts) != 1 {
		t.Fatalf("%d parts", len(parts))
	}
	if _, err := bus.Encode(parts[0]); err != nil {
		t.Fatal(err)
	}
}

func TestOnlyTheSameBuildIsLearnedFrom(t *testing.T) {
	from := &shelf{generations: map[string]uint64{"a": 7}, recent: []clerk.Known{{Database: "a", Verdict: verdict.Verdict{Generation: 7}}}}
	for build, learned := range map[string]int{"v1": 1, "v2": 0} {
		to := &shelf{flushed: make(map[string]uint64)}
		for _, part := range desk(t, from, "v1").parts() {
			desk(t, to, build).learn(part)
		}
		if len(to.learned) != learned || to.flushed["a"] != 7 {
			t.Errorf("build %s learned %d verdicts and flushes %v", build, len(to.learned), to.flushed)
		}
	}
}
