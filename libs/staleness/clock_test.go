package staleness

import (
	"strings"
	"testing"
)

func TestTheClockOfOneMachine(t *testing.T) {
	a, err := OpenClock()
	if err != nil {
		t.Fatal(err)
	}
	b, err := OpenClock()
	if err != nil {
		t.Fatal(err)
	}
	if a.Name != b.Name || len(strings.SplitN(a.Name, "/", 2)[0]) != 36 {
		t.Errorf("names %q and %q", a.Name, b.Name)
	}
	if first := a.Now(); first <= 0 || b.Now() < first {
		t.Error("time went back")
	}
}
