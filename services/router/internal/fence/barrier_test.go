package fence

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestSnapshotText(t *testing.T) {
	s, err := ParseSnapshot("740:760:745,750,751")
	if err != nil || s.Xmax != 760 || !slices.Equal(s.Running, []uint64{745, 750, 751}) {
		t.Fatalf("%+v, %v", s, err)
	}
	if s, err := ParseSnapshot("740:740:"); err != nil || s.Xmax != 740 || len(s.Running) != 0 {
		t.Fatalf("%+v, %v", s, err)
	}
	for _, bad := range []string{"", "1", "1:2", "2:1:", "1:x:", "x:1:", "1:5:7", "3:5:2", "1:5:3,2", "1:5:3,", "1:5:-1", "-1:5:"} {
		if s, err := ParseSnapshot(bad); err == nil {
			t.Errorf("%q reads as %+v", bad, s)
		}
	}
}

func FuzzParseSnapshot(f *testing.F) {
	f.Add("740:760:745,750,751")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseSnapshot(text)
		if err != nil {
			return
		}
		xip := strings.Trim(strings.ReplaceAll(fmt.Sprint(s.Running), " ", ","), "[]")
		if back, err := ParseSnapshot(fmt.Sprintf("0:%d:%s", s.Xmax, xip)); err != nil || back.Xmax != s.Xmax || !slices.Equal(back.Running, s.Running) {
			t.Fatalf("%q reads as %+v, which reads back as %+v, %v", text, s, back, err)
		}
	})
}

func TestBarrier(t *testing.T) {
	s := Snapshot{Xmax: 760, Running: []uint64{745, 750, 751}}
	for _, c := range []struct {
		replica  uint64
		doubtful []uint64
		behind   bool
	}{
		{761, nil, true},
		{760, []uint64{745, 750, 751}, false},
		{751, []uint64{745, 750}, false}, // 751 had not ended on the replica either
		{745, nil, false},
		{700, nil, false},
	} {
		d, behind := s.Shows(c.replica)
		if behind != c.behind || !slices.Equal(d, c.doubtful) {
			t.Errorf("replica at %d: %v, behind %v", c.replica, d, behind)
		}
	}
}
