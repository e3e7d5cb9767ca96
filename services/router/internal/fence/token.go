package fence

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/pgpilot/pgpilot/libs/lsn"
)

// Token is a fence that an application carries from one session to another, over
// routers and hosts. Its text is
//
//	<system id>/<timeline>@<switch point>:<lsn>
//
// as in 7301234567890123456/3@0/5000000:0/6000148: decimal numbers and positions in
// PostgreSQL's form. The switch point is where the timeline began, 0/0 for the
// first: two promotions from different places may give their timelines the same
// number.
type Token struct {
	// SystemID is the cluster's system identifier.
	SystemID uint64
	// Position is what has to be read at least.
	Position lsn.Position
	// Switch is where the position's timeline began.
	Switch lsn.LSN
}

// String gives the text.
func (t Token) String() string {
	return fmt.Sprintf("%d/%d@%s:%s", t.SystemID, t.Position.Timeline, t.Switch, t.Position.LSN)
}

// ParseToken reads the text of a token. There is one text for each token.
func ParseToken(s string) (Token, error) {
	t, err := parseToken(s)
	if err == nil && t.String() != s {
		err = errors.New("it is not written as pgpilot writes it")
	}
	if err != nil {
		return Token{}, fmt.Errorf("read fence token %q: %w: give what SHOW pgpilot.fence has shown", shorten(s), err)
	}
	return t, nil
}

// longestToken is the length of the longest text.
const longestToken = 20 + 1 + 10 + 1 + 17 + 1 + 17

func shorten(s string) string {
	if len(s) > longestToken {
		return s[:longestToken] + "..." // whatever the encoding of who reads it
	}
	return s
}

func parseToken(s string) (Token, error) {
	if len(s) > longestToken {
		return Token{}, fmt.Errorf("it is longer than %d characters", longestToken)
	}
	system, rest, ok := strings.Cut(s, "/")
	timeline, rest, ok2 := strings.Cut(rest, "@")
	began, at, ok3 := strings.Cut(rest, ":")
	if !ok || !ok2 || !ok3 {
		return Token{}, errors.New("it is not of the form <system id>/<timeline>@<switch point>:<lsn>")
	}
	id, err := strconv.ParseUint(system, 10, 64)
	if err != nil || id == 0 {
		return Token{}, errors.New("its system id is not a number")
	}
	n, err := strconv.ParseUint(timeline, 10, 32)
	if err != nil || n == 0 {
		return Token{}, errors.New("its timeline is not a number")
	}
	t := Token{SystemID: id, Position: lsn.Position{Timeline: lsn.Timeline(n)}}
	if t.Switch, err = lsn.Parse(began); err != nil {
		return Token{}, err
	}
	if t.Position.LSN, err = lsn.Parse(at); err != nil {
		return Token{}, err
	}
	switch {
	case t.Position.IsZero():
		return Token{}, errors.New("its position is zero")
	case t.Position.LSN < t.Switch:
		return Token{}, errors.New("its position lies before its timeline began")
	}
	return t, nil
}

// History is what a fresh probe and the topology say of the cluster.
type History struct {
	SystemID uint64
	// Now is the primary's insert position.
	Now lsn.Position
	// Ended lists where each timeline before the primary's ended, oldest first
	// (PostgreSQL's TIMELINE_HISTORY).
	Ended []lsn.Position
}

// Token makes the token of a position of the primary's timeline.
func (h *History) Token(at lsn.Position) Token {
	return Token{SystemID: h.SystemID, Position: at, Switch: h.began(len(h.Ended))}
}

// began gives where the timeline at place i of the history began.
func (h *History) began(i int) lsn.LSN {
	if i == 0 {
		return 0
	}
	return h.Ended[i-1].LSN
}

// Errors of Admit. All but ErrOtherCluster may be the work of a failover that the
// token does not know of, or that this router does not know of yet.
var (
	ErrOtherCluster = errors.New("the token is of another cluster")
	ErrOtherHistory = errors.New("the token is of a timeline that is no part of the primary's history")
	ErrBeyond       = errors.New("the token is of a position that the primary has not reached")
)

// Admit gives the position that a session with the token has to read, on the
// primary's timeline. lost says that the token names a write which a failover has
// lost: the position is then the place where the histories part.
func (h *History) Admit(t Token) (at lsn.Position, lost bool, err error) {
	if t.SystemID != h.SystemID {
		return lsn.Position{}, false, ErrOtherCluster
	}
	at = lsn.Position{Timeline: h.Now.Timeline, LSN: t.Position.LSN}
	if t.Position.Timeline == h.Now.Timeline {
		switch {
		case t.Switch != h.began(len(h.Ended)):
			return lsn.Position{}, false, ErrOtherHistory
		case t.Position.LSN > h.Now.LSN:
			return lsn.Position{}, false, ErrBeyond
		}
		return at, false, nil
	}
	for i, end := range h.Ended {
		if end.Timeline != t.Position.Timeline {
			continue
		}
		if t.Switch != h.began(i) {
			break
		}
		at, lost = h.carry(i, t.Position.LSN)
		return at, lost, nil
	}
	if t.Position.Timeline > h.Now.Timeline {
		return lsn.Position{}, false, ErrBeyond
	}
	return lsn.Position{}, false, ErrOtherHistory
}
