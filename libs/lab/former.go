package lab

import (
	"fmt"
	"strings"
)

// IsFormer says whether the member was a primary before another was promoted. It is
// no standby, so that it would start as a second primary, and [Start] leaves it stopped.
func (m *Member) IsFormer() bool {
	return m != m.cluster.Primary() && m.exists() && !m.isStandby()
}

// FormerNote says in one line which members are former primaries, that [Start] leaves them
// as they are, and what to do; empty if there are none. second is true if one of them runs, so that the
// cluster has two primaries.
func (c *Cluster) FormerNote() (note string, second bool) {
	var stopped, running []string
	for _, m := range c.members {
		if !m.IsFormer() {
			continue
		}
		if _, up := m.Running(); up {
			running = append(running, fmt.Sprintf(`%s ("lab kill %d" stops it)`, m.Name, m.Number))
		} else {
			stopped = append(stopped, m.Name)
		}
	}
	primary := c.Primary().Name
	var notes []string
	if running != nil {
		notes = append(notes, fmt.Sprintf("since the promotion of %s there is a second primary: %s", primary, strings.Join(running, ", ")))
	}
	if stopped != nil {
		notes = append(notes, fmt.Sprintf("not started, since %s was promoted in its place: %s (a new lab has it again: down, then up)",
			primary, strings.Join(stopped, ", ")))
	}
	return strings.Join(notes, "; "), running != nil
}
