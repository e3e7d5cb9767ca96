package catalog

import (
	"github.com/pgpilot/pgpilot/libs/verdict"
	"github.com/pgpilot/pgpilot/services/classifier/internal/judge"
)

// graph says what uses what.
type graph struct {
	nodes []node
	index map[object]int32
}

type node struct {
	// label names the object for people.
	label    string
	standing judge.Standing
	usedBy   []int32
}

func newGraph() *graph { return &graph{index: make(map[object]int32)} }

// at gives the object's node, a harmless one if it is new.
func (g *graph) at(o object) int32 {
	n, ok := g.index[o]
	if !ok {
		n = int32(len(g.nodes))
		g.nodes = append(g.nodes, node{})
		g.index[o] = n
	}
	return n
}

// uses notes that one runs, or may run, the other.
func (g *graph) uses(from, to int32) {
	if from != to {
		g.nodes[to].usedBy = append(g.nodes[to].usedBy, from)
	}
}

// spoil notes that the node may not be in a read by itself.
func (g *graph) spoil(n int32, reason string, effects verdict.Effect) {
	s := &g.nodes[n].standing
	if s.Reason == "" {
		s.Reason = reason
	}
	s.Effects |= effects
}

// spread spoils whatever uses something spoilt.
func (g *graph) spread() {
	var queue []int32
	for i := range g.nodes {
		if !g.nodes[i].standing.Harmless() {
			queue = append(queue, int32(i))
		}
	}
	for len(queue) > 0 {
		bad := &g.nodes[queue[len(queue)-1]]
		queue = queue[:len(queue)-1]
		for _, u := range bad.usedBy {
			user := &g.nodes[u].standing
			effects := user.Effects | bad.standing.Effects
			if !user.Harmless() && effects == user.Effects {
				continue
			}
			if user.Harmless() {
				user.Reason = g.because(u, bad.standing.Reason)
			}
			user.Effects = effects
			queue = append(queue, u)
		}
	}
}

// because puts a label before the reason of what is used, unless the reason has
// become long enough.
func (g *graph) because(n int32, reason string) string {
	if label := g.nodes[n].label; label != "" && len(reason) < 200 {
		return label + ": " + reason
	}
	return reason
}
