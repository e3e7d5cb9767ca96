package consistency

import (
	"strings"
	"testing"
	"time"
)

// op reads s1 w10=1 20-30 as: session 1 writes value 10, version 1, from 20 to 30.
func op(session int32, kind Kind, value, version, from, to int64) Op {
	return Op{Session: session, Kind: kind, Value: value, Version: version, Invoke: from, Return: to, Run: 1}
}

func with(o Op, change func(*Op)) Op {
	change(&o)
	return o
}

func TestSmallHistories(t *testing.T) {
	linear, causal, strict, relaxed := mode(t, "linear"), mode(t, "causal"), mode(t, "strict"), mode(t, "relaxed")
	bounded := mode(t, "bounded")
	for name, c := range map[string]struct {
		ops    []Op
		losses []Loss
		mode   Mode
		want   []Guarantee
	}{
		"a stale read of another's write is linear's business alone": {
			[]Op{op(1, Write, 10, 1, 0, 10), op(2, Read, 0, 0, 20, 30)}, nil, linear, []Guarantee{Linearizable}},
		"and not causal's": {
			[]Op{op(1, Write, 10, 1, 0, 10), op(2, Read, 0, 0, 20, 30)}, nil, causal, nil},
		"a read during a write may find either": {
			[]Op{op(1, Write, 10, 1, 0, 100), op(2, Read, 10, 1, 20, 30), op(3, Read, 0, 0, 5, 15)}, nil, linear, nil},
		"but not the old one after the new one": {
			[]Op{op(1, Write, 10, 1, 0, 100), op(2, Read, 10, 1, 20, 30), op(3, Read, 0, 0, 40, 50)}, nil, linear, []Guarantee{Linearizable}},
		"one's own write": {
			[]Op{op(1, Write, 10, 1, 0, 10), op(1, Read, 0, 0, 20, 30)}, nil, strict, []Guarantee{ReadYourWrites}},
		"relaxed promises nothing of it": {
			[]Op{op(1, Write, 10, 1, 0, 10), op(1, Read, 0, 0, 20, 30)}, nil, relaxed, nil},
		"a CALL that failed after its commit has written": {
			[]Op{with(op(1, Write, 10, 1, 0, 10), func(o *Op) { o.Outcome = OK }), op(1, Read, 0, 0, 20, 30)}, nil, strict, []Guarantee{ReadYourWrites}},
		"a write of unknown version counts once somebody has seen it": {
			[]Op{op(1, Write, 10, 0, 0, 10), op(2, Read, 10, 1, 20, 30), op(1, Read, 0, 0, 40, 50)}, nil, strict, []Guarantee{ReadYourWrites}},
		"a write whose answer was lost may take effect late": {
			[]Op{with(op(1, Write, 10, 0, 0, 10), func(o *Op) { o.Outcome = Unknown }), op(2, Read, 0, 0, 20, 30), op(2, Read, 10, 1, 40, 50)}, nil, linear, nil},
		"or never": {
			[]Op{with(op(1, Write, 10, 0, 0, 10), func(o *Op) { o.Outcome = Unknown }), op(2, Read, 0, 0, 20, 30)}, nil, linear, nil},
		"but not come and go": {
			[]Op{with(op(1, Write, 10, 0, 0, 10), func(o *Op) { o.Outcome = Unknown }), op(2, Read, 10, 1, 20, 30), op(3, Read, 0, 0, 40, 50)}, nil, linear, []Guarantee{Linearizable}},
		"a failed write must never be seen": {
			[]Op{with(op(1, Write, 10, 0, 0, 10), func(o *Op) { o.Outcome = Failed }), op(2, Read, 10, 1, 20, 30)}, nil, relaxed, []Guarantee{Aborted}},
		"a value before its write": {
			[]Op{op(2, Read, 10, 1, 0, 10), op(1, Write, 10, 1, 20, 30)}, nil, relaxed, []Guarantee{MadeUp}},
		"two values of one version": {
			[]Op{op(1, Write, 10, 1, 0, 10), op(2, Write, 11, 1, 20, 30)}, nil, linear, []Guarantee{Forked}},
		"two values of one version, one of them lost with its primary": {
			[]Op{op(1, Write, 10, 1, 0, 10), op(2, Write, 11, 1, 60, 70), op(1, Read, 11, 1, 80, 90)}, []Loss{{20, 50}}, linear, nil},
		"a write lost with its primary": {
			[]Op{op(1, Write, 10, 1, 0, 10), op(1, Read, 0, 0, 60, 70)}, []Loss{{20, 50}}, linear, nil},
		"a write after that is not": {
			[]Op{op(1, Write, 10, 1, 0, 10), op(1, Write, 11, 1, 60, 70), op(1, Read, 0, 0, 80, 90)}, []Loss{{20, 50}}, linear, []Guarantee{ReadYourWrites, Linearizable}},
		"a value that was lost, in place of the write that has its version now": {
			[]Op{op(1, Write, 10, 1, 0, 10), op(2, Write, 11, 1, 60, 70), op(2, Read, 10, 1, 80, 90)}, []Loss{{20, 50}}, strict, []Guarantee{ReadYourWrites}},
		"a value that was lost, of a later version": {
			[]Op{op(1, Write, 10, 1, 0, 10), op(1, Write, 12, 2, 11, 19), op(2, Write, 11, 1, 60, 70), op(2, Read, 12, 2, 80, 90)}, []Loss{{20, 50}}, strict, []Guarantee{ReadYourWrites}},
		"a write during the loss that is not lost": {
			[]Op{op(1, Write, 10, 1, 0, 10), op(2, Write, 11, 2, 15, 70), op(3, Read, 10, 1, 60, 65), op(3, Read, 11, 2, 80, 90)}, []Loss{{20, 50}}, linear, nil},
		"it does not go again": {
			[]Op{op(1, Write, 10, 1, 0, 10), op(2, Write, 11, 2, 15, 70), op(3, Read, 11, 2, 60, 65), op(4, Read, 10, 1, 80, 90)}, []Loss{{20, 50}}, linear, []Guarantee{Linearizable}},
		"a value from before the loss that is not lost": {
			[]Op{op(1, Write, 10, 1, 0, 10), op(2, Read, 10, 1, 60, 70), op(2, Write, 11, 2, 71, 79), op(2, Read, 11, 2, 80, 90)}, []Loss{{20, 50}}, strict, nil},
		"a write behind what the session had read": {
			[]Op{op(1, Write, 10, 1, 0, 10), op(1, Write, 11, 2, 20, 30), op(2, Read, 11, 2, 40, 50), op(2, Write, 12, 2, 60, 70)}, nil, relaxed, []Guarantee{WritesFollowReads}},
		"older on another server": {
			[]Op{op(1, Write, 10, 1, 0, 10), op(2, Read, 10, 1, 20, 30), with(op(2, Read, 0, 0, 40, 50), func(o *Op) { o.Server = 1 })}, nil, strict, nil},
		"older on another server, causal": {
			[]Op{op(1, Write, 10, 1, 0, 10), op(2, Read, 10, 1, 20, 30), with(op(2, Read, 0, 0, 40, 50), func(o *Op) { o.Server = 1 })}, nil, causal, []Guarantee{MonotonicReads}},
		"older on the same server": {
			[]Op{op(1, Write, 10, 1, 0, 10), op(2, Read, 10, 1, 20, 30), op(2, Read, 0, 0, 40, 50)}, nil, strict, []Guarantee{MonotonicOnServer}},
		"older on the same server after a restart": {
			[]Op{op(1, Write, 10, 1, 0, 10), op(2, Read, 10, 1, 20, 30), with(op(2, Read, 0, 0, 40, 50), func(o *Op) { o.Run = 2 })}, nil, strict, nil},
		"older than the bound": {
			[]Op{op(1, Write, 10, 1, 0, 10), op(2, Read, 0, 0, 10+int64(time.Second)+1, 20+int64(time.Second))}, nil, bounded, []Guarantee{Bounded}},
		"as old as the bound": {
			[]Op{op(1, Write, 10, 1, 0, 10), op(2, Read, 0, 0, 10+int64(time.Second), 20+int64(time.Second))}, nil, bounded, nil},
	} {
		r := Check(history(c.ops, c.losses...), c.mode.Promise)
		got := map[Guarantee]bool{}
		for _, v := range r.Violations {
			got[v.Guarantee] = true
			if !strings.Contains(v.String(), v.Guarantee.String()) || v.Why == "" {
				t.Errorf("%s: told as %q", name, v)
			}
		}
		for _, g := range c.want {
			if !got[g] {
				t.Errorf("%s: %v is not noticed", name, g)
			}
			delete(got, g)
		}
		delete(got, MonotonicReads) // follows from others here
		if len(got) > 0 && c.mode.Name != "linear" {
			t.Errorf("%s: %v", name, r.Violations)
		}
		if len(c.want) == 0 && len(r.Violations) > 0 {
			t.Errorf("%s: %v", name, r.Violations)
		}
	}
}

func mode(t *testing.T, name string) Mode {
	t.Helper()
	m, err := ModeOf(name, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestAModeThatThereIsNot(t *testing.T) {
	if m, err := ModeOf("eventual", 0); err == nil {
		t.Errorf("%+v", m)
	}
}
