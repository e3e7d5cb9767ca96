package session

import "strings"

// pins are the reasons for which a session is bound to its primary connection; none
// of them: it is not.
type pins uint8

const (
	// pinState: a statement left something in the server session. Ends with DISCARD
	// ALL.
	pinState pins = 1 << iota
	// pinListen: the session listens on a channel. Ends with UNLISTEN.
	pinListen
	// pinExtended: a statement prepared with the extended query protocol, too long to
	// be kept, lives in the server session. Ends with DISCARD ALL.
	pinExtended
	// pinCopy: a copy has failed, and it is open whether the server answers a Sync
	// that it was sent during it. The next answer shows it.
	pinCopy
	// pinReplication: it is a connection for replication. Never ends.
	pinReplication
)

var pinNames = []struct {
	pin  pins
	name string
}{{pinState, "session state"}, {pinListen, "listen"}, {pinExtended, "extended protocol"}, {pinCopy, "failed copy"}, {pinReplication, "replication"}}

// String gives the reasons as SHOW pgpilot.session and a record have them.
func (p pins) String() string {
	var out []string
	for _, n := range pinNames {
		if p&n.pin != 0 {
			out = append(out, n.name)
		}
	}
	return strings.Join(out, ", ")
}

// parsePins reads what String writes. A reason that is not known here is one for
// which nothing is known to end it.
func parsePins(s string) (p pins) {
	if s == "" {
		return 0
	}
next:
	for name := range strings.SplitSeq(s, ", ") {
		for _, n := range pinNames {
			if n.name == name {
				p |= n.pin
				continue next
			}
		}
		p |= pinState
	}
	return p
}
