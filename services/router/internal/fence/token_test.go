package fence

import (
	"errors"
	"strings"
	"testing"

	"github.com/pgpilot/pgpilot/libs/lsn"
)

func TestTokenText(t *testing.T) {
	want := Token{SystemID: 7301234567890123456, Position: lsn.Position{Timeline: 3, LSN: 0x6000148}, Switch: 0x5000000}
	const text = "7301234567890123456/3@0/5000000:0/6000148"
	if got := want.String(); got != text {
		t.Errorf("written as %s, want %s", got, text)
	}
	if got, err := ParseToken(text); err != nil || got != want {
		t.Errorf("read as %+v, %v", got, err)
	}
	for _, bad := range []string{
		"", "7/1@0/0", "7/1:0/5", "1@0/0:0/5", "0/1@0/0:0/5", "7/0@0/0:0/5", "x/1@0/0:0/5", "7/x@0/0:0/5", "7/4294967296@0/0:0/5",
		"7/1@0:0/5", "7/1@0/0:5", "7/1@0/0:0/0", "7/2@0/6:0/5", "07/1@0/0:0/5", "+7/1@0/0:0/5", "7/1@0/0:0/a", "7/1@0/0:0/05", " 7/1@0/0:0/5",
		"7/1@0/0:0/5 ", strings.Repeat("7", 100) + "/1@0/0:0/5",
	} {
		got, err := ParseToken(bad)
		if err == nil || !strings.Contains(err.Error(), "SHOW pgpilot.fence") {
			t.Errorf("%q: %+v, %v; want an error that says what to give", bad, got, err)
		}
	}
}

func FuzzParseToken(f *testing.F) {
	f.Add("7301234567890123456/3@0/5000000:0/6000148")
	f.Add("1/4294967295@FFFFFFFF/FFFFFFFF:FFFFFFFF/FFFFFFFF")
	f.Fuzz(func(t *testing.T, s string) {
		tok, err := ParseToken(s)
		if err != nil {
			return
		}
		if tok.String() != s || len(s) > longestToken {
			t.Fatalf("%q reads as %+v, which is written %q", s, tok, tok)
		}
	})
}

// The cluster was promoted at 100 and again at 200; the primary is at 300.
func TestAdmit(t *testing.T) {
	h := &History{SystemID: 7, Now: lsn.Position{Timeline: 3, LSN: 300}, Ended: []lsn.Position{{Timeline: 1, LSN: 100}, {Timeline: 2, LSN: 200}}}
	token := func(tl lsn.Timeline, began, l lsn.LSN) Token {
		return Token{SystemID: 7, Position: lsn.Position{Timeline: tl, LSN: l}, Switch: began}
	}
	for name, c := range map[string]struct {
		token Token
		at    lsn.LSN
		lost  bool
		err   error
	}{
		"of now":                                {token: token(3, 200, 300), at: 300},
		"beyond what there is":                  {token: token(3, 200, 301), err: ErrBeyond},
		"the timeline began elsewhere":          {token: token(3, 150, 250), err: ErrOtherHistory},
		"before the last promotion":             {token: token(2, 100, 200), at: 200},
		"lost by the last promotion":            {token: token(2, 100, 201), at: 200, lost: true},
		"an earlier timeline of the number":     {token: token(2, 90, 150), err: ErrOtherHistory},
		"before the first promotion":            {token: token(1, 0, 100), at: 100},
		"lost by the first promotion":           {token: token(1, 0, 101), at: 100, lost: true},
		"a promotion the router has not heard":  {token: token(4, 310, 320), err: ErrBeyond},
		"another cluster, whatever the numbers": {token: Token{SystemID: 8, Position: lsn.Position{Timeline: 3, LSN: 250}, Switch: 200}, err: ErrOtherCluster},
	} {
		at, lost, err := h.Admit(c.token)
		if !errors.Is(err, c.err) || err == nil && (at != lsn.Position{Timeline: 3, LSN: c.at} || lost != c.lost) {
			t.Errorf("%s: %v, lost %v, %v", name, at, lost, err)
		}
	}
	if got := h.Token(lsn.Position{Timeline: 3, LSN: 250}); got != token(3, 200, 250) {
		t.Errorf("token %v", got)
	}
	first := &History{SystemID: 7, Now: lsn.Position{Timeline: 1, LSN: 50}}
	if at, _, err := first.Admit(first.Token(lsn.Position{Timeline: 1, LSN: 40})); err != nil || at.LSN != 40 {
		t.Errorf("on the first timeline: %v, %v", at, err)
	}
}

// A replica that was behind is promoted twice in a row, the second time from a place
// before the first: what lies between is lost too.
func TestAdmitLosesWhatALaterPromotionCutOff(t *testing.T) {
	h := &History{SystemID: 7, Now: lsn.Position{Timeline: 4, LSN: 300}, Ended: []lsn.Position{{Timeline: 1, LSN: 100}, {Timeline: 2, LSN: 90}}}
	at, lost, err := h.Admit(Token{SystemID: 7, Position: lsn.Position{Timeline: 1, LSN: 95}})
	if err != nil || !lost || at.LSN != 90 {
		t.Errorf("%v, lost %v, %v; want 90, lost", at, lost, err)
	}
}
