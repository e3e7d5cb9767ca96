package report

import (
	"errors"
	"fmt"
	"io"
	"reflect"

	"github.com/pgpilot/pgpilot/bench/internal/record"
)

// ErrDiffer says that two runs do not agree.
var ErrDiffer = errors.New("the runs differ by more than their intervals allow")

// Run is what one record has.
type Run struct {
	Header record.Header
	Groups []record.Group
}

// figure is one value that a report states, with its interval.
type figure struct {
	name     string
	interval Interval
	decimals int
	// goal says that it decides about a goal.
	goal bool
}

// figures lists all that is stated with an interval: goals first, then throughput.
func (r *Results) figures() []figure {
	var out []figure
	for _, g := range goals() {
		c, ok := r.Find(g.workload)
		if !ok {
			continue
		}
		if i, ok := g.measure(c); ok && i.Known() {
			out = append(out, figure{g.text, i, g.decimals, true})
		}
	}
	for _, c := range r.Comparisons() {
		if c.Ratio.Known() {
			out = append(out, figure{fmt.Sprintf("throughput, %s, %s, × %s", c.Case, c.Spec.Title, c.Baseline), c.Ratio, 2, false})
		}
	}
	return out
}

// chance is the share of figures that may differ although nothing has changed: that of
// medians that lie outside of their intervals.
const chance = 1 - confidence

// Compare writes, as a Markdown table, whether two runs of a plan agree: whether the
// intervals of each figure that both state have something in common. It returns ErrDiffer
// if those of a goal do not, or those of more figures than chance explains. Runs of
// different machines, versions or plans are not compared.
func Compare(w io.Writer, a, b Run) error {
	switch {
	case a.Header.Machine != b.Header.Machine:
		return errors.New("the runs are of different machines: measure both on one")
	case !reflect.DeepEqual(a.Header.Programs, b.Header.Programs):
		return fmt.Errorf("the runs compare different versions (%v and %v)", a.Header.Programs, b.Header.Programs)
	case !reflect.DeepEqual(a.Header.Plan, b.Header.Plan):
		return errors.New("the runs have different plans: use one plan for both")
	}
	first, err := Collect(a.Header, a.Groups)
	if err != nil {
		return err
	}
	second, err := Collect(b.Header, b.Groups)
	if err != nil {
		return err
	}
	if a.Header.Build == b.Header.Build {
		fmt.Fprintf(w, "Both runs are of commit %s (programs %s).\n", a.Header.Build.Commit, a.Header.Build.Programs)
	} else {
		fmt.Fprintf(w, "The runs are of different builds: commit %s (programs %s) and %s (programs %s).\n",
			a.Header.Build.Commit, a.Header.Build.Programs, b.Header.Build.Commit, b.Header.Build.Programs)
	}
	fmt.Fprint(w, "\n| | first | second | |\n|---|---|---|---|\n")
	others := map[string]Interval{}
	for _, f := range second.figures() {
		others[f.name] = f.interval
	}
	var compared, differ, goals int
	for _, f := range first.figures() {
		other, ok := others[f.name]
		if !ok {
			continue
		}
		compared++
		says := "agree"
		if !f.interval.meets(other) {
			differ++
			says = "**differ**"
			if f.goal {
				goals++
				says = "**differ** (a goal)"
			}
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s |\n", f.name, f.interval.Text(f.decimals), other.Text(f.decimals), says)
	}
	if compared == 0 {
		return errors.New("there is nothing to compare: a figure needs six rounds in each run")
	}
	allowed := int(chance * float64(compared))
	fmt.Fprintf(w, "\n%d of %d figures agree; %d of the others are goals. Chance explains %d that differ.\n", compared-differ, compared, goals, allowed)
	if goals > 0 || differ > allowed {
		return ErrDiffer
	}
	return nil
}

// meets reports whether two intervals have something in common.
func (i Interval) meets(o Interval) bool { return i.Lo <= o.Hi && o.Lo <= i.Hi }
