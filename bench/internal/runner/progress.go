package runner

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/pgpilot/pgpilot/bench/internal/matrix"
	"github.com/pgpilot/pgpilot/bench/internal/record"
)

// progress tells how far a run is.
type progress struct {
	out        io.Writer
	plan       matrix.Plan
	start      time.Time
	done, todo int
}

func newProgress(out io.Writer, plan matrix.Plan, todo int) *progress {
	return &progress{out: out, plan: plan, start: time.Now(), todo: todo}
}

// group tells of one that is complete.
func (p *progress) group(g record.Group) {
	p.done++
	var figures []string
	for _, c := range g.Cells {
		switch {
		case c.Skipped != "":
			continue
		case c.Failed != "":
			figures = append(figures, c.Target+" failed")
		default:
			figures = append(figures, fmt.Sprintf("%s %.0f", c.Target, c.TPS()))
		}
	}
	left := time.Since(p.start) / time.Duration(p.done) * time.Duration(p.todo-p.done)
	fmt.Fprintf(p.out, "round %d of %d  %-24s %s tps  (%d of %d, %v left)\n",
		g.Round+1, p.plan.Rounds, g.Case, strings.Join(figures, ", "), p.done, p.todo, left.Round(time.Second))
}
