package e2e

import (
	"fmt"
	"net"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
)

// A client that sends its last requests in one piece, says goodbye and closes its
// side, has all of them run, as on a server.
func TestLastRequestsOfAClientThatLeavesAreRun(t *testing.T) {
	t.Parallel()
	r := newRig(t, newCluster(t), nil)
	other := r.connect()
	defer other.close()
	other.must("CREATE TABLE parting (n int)")
	const rounds = 50
	for range rounds {
		leaving, err := r.dial("")
		if err != nil {
			t.Fatal(err)
		}
		h, err := leaving.conn.Hijack()
		if err != nil {
			t.Fatal(err)
		}
		var b []byte
		for range 3 {
			if b, err = (&pgproto3.Query{String: "INSERT INTO parting VALUES (1)"}).Encode(b); err != nil {
				t.Fatal(err)
			}
		}
		if b, err = (&pgproto3.Terminate{}).Encode(b); err != nil {
			t.Fatal(err)
		}
		if _, err := h.Conn.Write(b); err != nil {
			t.Fatal(err)
		}
		if err := h.Conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		// Read by the driver's own reader, which may have begun to read already.
		got := 0
		var end error
		for end == nil {
			var m pgproto3.BackendMessage
			m, end = h.Frontend.Receive()
			if c, ok := m.(*pgproto3.CommandComplete); ok && string(c.CommandTag) == "INSERT 0 1" {
				got++
			}
		}
		h.Conn.Close()
		if got != 3 {
			t.Fatalf("%d of 3 last requests were answered, then %v", got, end)
		}
	}
	// Another session may read from a replica that lags.
	if got := other.one("SELECT count(*) FROM parting /* pgpilot: primary */"); got != fmt.Sprint(3*rounds) {
		t.Fatalf("%s of %d last requests were run", got, 3*rounds)
	}
}
