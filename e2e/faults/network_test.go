package faults

import "time"

// anyServer chooses one, the primary as well.
func (r *run) anyServer() *server { return r.servers[r.r.IntN(len(r.servers))] }

// cutNetwork resets every connection of pgpilot to a server and refuses new ones.
func (r *run) cutNetwork() {
	s := r.anyServer()
	s.wire.Cut()
	r.hold(300*time.Millisecond, 2*time.Second)
	s.wire.Heal()
}

// silenceNetwork swallows all that pgpilot and a server say to each other.
func (r *run) silenceNetwork() {
	s := r.anyServer()
	s.wire.Blackhole()
	r.hold(time.Second, 4*time.Second)
	s.wire.Heal()
}

// slowNetwork makes every packet late, or few bytes pass.
func (r *run) slowNetwork() {
	s := r.anyServer()
	if r.r.IntN(2) == 0 {
		s.wire.Delay(time.Duration(1+r.r.IntN(30)) * time.Millisecond)
	} else {
		s.wire.Throttle(200_000)
	}
	r.hold(time.Second, 3*time.Second)
	s.wire.Heal()
}
