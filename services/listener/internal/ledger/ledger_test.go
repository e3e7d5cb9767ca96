package ledger

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgpilot/pgpilot/services/listener/internal/startup"
)

func TestPlacesAreCountedOnce(t *testing.T) {
	l := New("1", 2, prometheus.NewRegistry())
	a, ok := l.Open(startup.Version30)
	if !ok {
		t.Fatal("no place in an empty ledger")
	}
	l.Adopt(a.Session) // its router reports it after the connection was renewed
	l.Adopt("old-1")
	l.Adopt("old-1")
	if _, ok := l.Open(startup.Version30); ok || l.Len() != 2 {
		t.Fatalf("a third place of two; %d are taken", l.Len())
	}
	l.Close("old-1")
	l.Close("old-1")
	l.Close("never seen")
	if l.Len() != 1 {
		t.Fatalf("%d places are taken, want 1", l.Len())
	}
	l.SetMax(1)
	if _, ok := l.Open(startup.Version30); ok {
		t.Fatal("the new limit does not hold")
	}
	l.Close(a.Session)
	if _, ok := l.Open(startup.Version30); !ok {
		t.Fatal("a place that was given back is not free")
	}
}

func TestKeysAreUniqueAndOfTheProtocolsLength(t *testing.T) {
	l := New("1", 1000, prometheus.NewRegistry())
	pids, sessions := map[uint32]bool{}, map[string]bool{}
	for i := range 1000 {
		version, size := startup.Version30, 4
		if i%2 == 1 {
			version, size = startup.Version32, 32
		}
		e, ok := l.Open(version)
		if !ok || len(e.Cancel.Secret) != size || e.Cancel.PID == 0 || e.Cancel.PID > 1<<31-1 {
			t.Fatalf("entry %+v, %v", e, ok)
		}
		pids[e.Cancel.PID], sessions[e.Session] = true, true
	}
	if len(pids) != 1000 || len(sessions) != 1000 {
		t.Fatalf("%d pids and %d sessions of 1000", len(pids), len(sessions))
	}
	if len(l.state.pids) != 1000 {
		t.Fatalf("%d pids remembered", len(l.state.pids))
	}
	for s := range sessions {
		l.Close(s)
	}
	if len(l.state.pids) != 0 {
		t.Fatalf("%d pids remembered after the end", len(l.state.pids))
	}
}
