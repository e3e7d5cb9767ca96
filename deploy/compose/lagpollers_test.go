//go:build compose

package compose

import (
	"bufio"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// One of two lagpollers may end, as it should or not, and be back: clients do not notice, reads
// go on on replicas, and who listens to the bus hears of every server.
func (p *project) testLagpollers(t *testing.T) {
	p = p.with(t)
	l := startLoad(t, p.dsn())
	l.settle(t)
	l.during(t, "1 to 2 lagpollers", func() {
		p.lagpollers(2)
	})
	p.heard(t, 2)
	both := p.containers("lagpoller")
	for _, step := range []struct {
		what, container string
		left            int
	}{
		{"restart", both[0], 2},
		{"kill", both[0], 1},
		{"start", both[0], 2},
		{"restart", both[1], 2},
	} {
		l.during(t, step.what+" one of two lagpollers", func() {
			if _, err := docker(t.Context(), p.env, step.what, step.container); err != nil {
				t.Fatal(err)
			}
			p.waitHealthy("lagpoller", step.left)
			p.readsOnAReplica()
		})
		p.heard(t, step.left)
	}
	l.during(t, "2 lagpollers to 1", func() {
		p.lagpollers(1)
	})
	p.heard(t, 1)
	l.check(t)
}

// lagpollers changes their number and leaves everything else alone.
func (p *project) lagpollers(number int) {
	p.t.Helper()
	p.compose("up", "--detach", "--no-deps", "--no-build", "--no-recreate", "--scale", fmt.Sprintf("lagpoller=%d", number), "lagpoller")
	p.waitHealthy("lagpoller", number)
}

// heard waits until so many lagpollers are heard on the bus, each of which reaches every server.
func (p *project) heard(t *testing.T, lagpollers int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d lagpollers are heard", lagpollers), func() error {
		out, err := p.try("run", "--rm", "--no-TTY", "nats", "sub", "pgpilot.lag.>", "--count=60", "--raw")
		if err != nil {
			return err
		}
		servers := map[string]map[string]bool{} // by who has said something of them
		for lines := bufio.NewScanner(strings.NewReader(out)); lines.Scan(); {
			var said struct {
				Backend, Publisher string
				Healthy            bool
			}
			if json.Unmarshal(lines.Bytes(), &said) != nil || !said.Healthy {
				continue // not a line of the bus, or not well yet
			}
			if servers[said.Publisher] == nil {
				servers[said.Publisher] = map[string]bool{}
			}
			servers[said.Publisher][said.Backend] = true
		}
		for who, of := range servers {
			if len(of) != 3 {
				return fmt.Errorf("%s tells of %v", who, of)
			}
		}
		if len(servers) != lagpollers {
			return fmt.Errorf("heard are %v", servers)
		}
		return nil
	})
}
