package sim

import (
	"testing"

	"github.com/pgpilot/pgpilot/services/router/internal/fence"
)

// A commit that waits for a synchronous standby has been shown by a replica that cannot be
// asked about it any more. It takes too much by chance for a course to come by.
func TestWhatCannotBeAskedStaysInDoubt(t *testing.T) {
	for name, gone := range map[string]func(w *world, s *server){
		"it has restarted": func(_ *world, s *server) {
			s.restart = len(s.log) - 1
			s.stop()
			s.start(true)
		},
		"it is not configured any more": func(w *world, s *server) { w.router.leave(s.id) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(1, "linear")
			b, p := &w.router.barrier, w.servers[0]
			crosses := func(client int) bool {
				c := w.router.clients[client]
				c.request.Mode = fence.Linear
				if !c.crosses {
					b.join(c)
				}
				b.start()
				b.read()
				b.arrive()
				for i := range b.lines {
					if b.lines[i].asking {
						b.tells(i)
					}
				}
				return c.crosses
			}
			if crosses(0) {
				t.Fatal("nothing is in progress, and the primary is not used")
			}
			r := p.write(record{commit: true, value: 1, version: 1})
			p.flush(len(p.log))
			p.pending = append(p.pending, &commit{at: len(p.log) - 1, rec: r, from: p.connect(), tell: func() {}})
			w.servers[1].receive(p)
			for w.servers[1].visible < len(p.log) {
				w.servers[1].replay()
			}
			if !crosses(0) {
				t.Fatal("the primary is used while it does not show what a replica shows")
			}
			gone(w, w.servers[1])
			if !crosses(1) {
				t.Fatal("the primary is used although nobody can say what has been shown")
			}
			p.acknowledge()
			if crosses(1) {
				t.Fatal("the primary is not used although it shows all there is")
			}
		})
	}
}
