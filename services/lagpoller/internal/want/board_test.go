package want

import (
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/libs/lsn"
)

func at(t lsn.Timeline, l lsn.LSN) lsn.Position { return lsn.Position{Timeline: t, LSN: l} }

func TestBoardGivesTheHighestUntilItExpires(t *testing.T) {
	b, now := NewBoard(), time.Now()
	if got := b.Wanted(now); !got.IsZero() {
		t.Fatalf("an empty board wants %v", got)
	}
	b.Hear("a", at(1, 100), now)
	b.Hear("b", at(1, 50), now.Add(Lifetime/2))
	if got := b.Wanted(now.Add(Lifetime / 2)); got != at(1, 100) {
		t.Fatalf("wanted %v", got)
	}
	if got := b.Wanted(now.Add(Lifetime + 1)); got != at(1, 50) {
		t.Fatalf("after the higher want expired: %v", got)
	}
	if got := b.Wanted(now.Add(2 * Lifetime)); !got.IsZero() {
		t.Fatalf("after all expired: %v", got)
	}
}

func TestBoardTakesTheLatestWordOfARouter(t *testing.T) {
	b, now := NewBoard(), time.Now()
	b.Hear("a", at(1, 100), now)
	b.Hear("a", at(1, 10), now)
	if got := b.Wanted(now); got != at(1, 10) {
		t.Fatalf("wanted %v", got)
	}
}

func TestBellRingsUntilTakenDown(t *testing.T) {
	b, now := NewBoard(), time.Now()
	bell, off := b.Bell()
	b.Hear("a", at(1, 1), now)
	b.Hear("a", at(1, 2), now) // must not block
	select {
	case <-bell:
	default:
		t.Fatal("the bell did not ring")
	}
	off()
	b.Hear("a", at(1, 3), now)
	select {
	case <-bell:
		t.Fatal("a bell that was taken down rang")
	default:
	}
}

func TestBehind(t *testing.T) {
	for name, c := range map[string]struct {
		replica, wanted lsn.Position
		want            bool
	}{
		"nothing wanted":               {at(1, 10), lsn.Position{}, false},
		"not there yet":                {at(1, 10), at(1, 11), true},
		"exactly there":                {at(1, 11), at(1, 11), false},
		"past it":                      {at(1, 12), at(1, 11), false},
		"still on the old timeline":    {at(1, 12), at(2, 11), true},
		"want of a timeline left":      {at(2, 10), at(1, 11), false},
		"nothing replayed, one wanted": {lsn.Position{}, at(1, 1), true},
	} {
		if got := Behind(c.replica, c.wanted); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
