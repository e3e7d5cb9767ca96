package engine

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pgpilot/pgpilot/libs/lab"
	"github.com/pgpilot/pgpilot/libs/wire"
	"github.com/pgpilot/pgpilot/services/router/internal/session"
)

// A client that reads what it is told last byte by byte does not keep a router that stops,
// once the time for that is over, for as long as it likes.
func slowReadersDoNotKeepIt(t *testing.T, cluster *lab.Cluster) {
	for name, behind := range map[string][]byte{"behind its answers": nil, "behind its goodbye": goodbye} {
		t.Run(name, func(t *testing.T) {
			st := newStation(t, cluster)
			p := joinSession(t, st.Engine, "slow")
			st.on(func() {
				if err := unix.SetsockoptInt(st.clients["slow"].fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 4096); err != nil {
					t.Error(err)
				}
			})
			const many = 2000
			requests := append(bytes.Repeat(wire.AppendQuery(nil, "SHOW pgpilot.last_route"), many), behind...)
			if n, err := unix.Write(p.fd, requests); err != nil || n != len(requests) {
				t.Fatalf("sent %d bytes of %d: %v", n, len(requests), err)
			}
			left := 0
			st.await("its answers wait for it to read", func() bool {
				st.on(func() {
					switch c := st.clients["slow"]; {
					case c == nil:
						left = 1 << 30 // given up before this has been looked at
					case c.closing, behind == nil && c.s.Phase() == session.Idle && len(c.unread) == 0:
						left = len(c.out)
					}
				})
				return left > 100*many
			})
			st.Stop(0)
			if err := unix.SetsockoptTimeval(p.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: int64(patience / time.Second)}); err != nil {
				t.Fatal(err)
			}
			// At this pace it takes more than half a minute, and never rests for long.
			pace := time.NewTicker(100 * time.Millisecond)
			defer pace.Stop()
			got := 0
			for range pace.C {
				n, err := unix.Read(p.fd, p.buf[:1000])
				if errors.Is(err, unix.EINTR) {
					continue
				}
				if n == 0 || errors.Is(err, unix.ECONNRESET) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				got += n
			}
			if got >= left {
				t.Errorf("%d bytes have been waited for", got)
			}
		})
	}
}
