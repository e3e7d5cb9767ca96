package report

import (
	"fmt"
	"image/color"
	"math"
	"path/filepath"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/palette/brewer"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"github.com/pgpilot/pgpilot/bench/internal/target"
)

// chart is one picture.
type chart struct{ file, title string }

const (
	barWidth    = 7  // points
	groupWidth  = 95 // points, of all bars of a case
	chartHeight = 300
	perChart    = 10 // cases
	maxColors   = 12 // that are told apart
)

// value is one bar with the ends of its interval.
type value struct {
	mid, lo, hi float64
	ok          bool
}

// charts draws all pictures into a folder.
func (r *Results) charts(dir string) ([]chart, error) {
	var out []chart
	for _, k := range []kind{throughput, processorTime} {
		shown := r.with(k)
		for n := 0; n == 0 || len(shown) > 0; n++ {
			picture := chart{fmt.Sprintf("%s-%d.svg", k.name, n+1), k.title}
			part := shown[:min(perChart, len(shown))]
			shown = shown[len(part):]
			if err := k.draw(filepath.Join(dir, picture.file), part); err != nil {
				return nil, err
			}
			out = append(out, picture)
		}
	}
	for i := range r.Cases {
		c := &r.Cases[i]
		if c.Case.Rate == 0 || !c.measured() {
			continue
		}
		picture := chart{fmt.Sprintf("latency-%d.svg", i), "Latency, " + c.Case.Name()}
		if err := c.latencies(filepath.Join(dir, picture.file), picture.title); err != nil {
			return nil, err
		}
		out = append(out, picture)
	}
	return out, nil
}

// kind is what bars show.
type kind struct {
	name, title, unit string
	// reference draws a line at one.
	reference bool
	of        func(*CaseResults, TargetResults) value
}

var throughput = kind{"throughput", "Throughput relative to direct", "× direct", true, func(c *CaseResults, t TargetResults) value {
	if t.Spec.Kind == target.Direct || c.Case.Rate > 0 {
		return value{}
	}
	ratio, ok := c.Ratio(t.Spec.Name, "direct", tps)
	return value{ratio.Mid, ratio.Lo, ratio.Hi, ok}
}}

var processorTime = kind{"cpu", "Processor time of the proxy per statement", "µs", false, func(_ *CaseResults, t TargetResults) value {
	i := t.ProxyCPU
	return value{i.Mid, i.Lo, i.Hi, t.Spec.Kind != target.Direct && i.N > 0}
}}

// with lists the cases that have a bar.
func (r *Results) with(k kind) []*CaseResults {
	var out []*CaseResults
	for i := range r.Cases {
		c := &r.Cases[i]
		if slices.ContainsFunc(c.Targets, func(t TargetResults) bool { return t.Rounds > 0 && k.of(c, t).ok }) {
			out = append(out, c)
		}
	}
	return out
}

// draw draws a group of bars for each case, one for each target that has a value there.
func (k kind) draw(path string, cases []*CaseResults) error {
	p := plot.New()
	p.Title.Text, p.Y.Label.Text = k.title, k.unit
	p.Y.Min = 0
	p.Legend.Top = true
	p.Add(plotter.NewGrid())
	specs := target.Specs()
	for n, spec := range specs {
		// In units of the axis, so that bars and their error bars meet.
		shift := (float64(n) - float64(len(specs)-1)/2) * (barWidth + 1) / groupWidth
		if err := k.add(p, cases, spec, shift, colorOf(n)); err != nil {
			return fmt.Errorf("draw %s: %w", path, err)
		}
	}
	names := make([]string, len(cases))
	for i, c := range cases {
		names[i] = c.Case.Name()
	}
	if len(cases) == 0 {
		names = []string{"nothing was measured"}
	}
	if k.reference {
		one := plotter.NewFunction(func(float64) float64 { return 1 })
		one.Color = color.Gray{Y: 0x60}
		one.Dashes = []vg.Length{vg.Points(4), vg.Points(3)}
		p.Add(one)
	}
	p.NominalX(names...)
	p.X.Min, p.X.Max = -0.5, float64(len(names))-0.5
	p.X.Tick.Label.Rotation = 0.35
	p.X.Tick.Label.XAlign = -1
	p.Y.Max *= 1.45 // room for the legend
	width := vg.Points(float64(160 + groupWidth*len(names)))
	if err := p.Save(width, vg.Points(chartHeight), path); err != nil {
		return fmt.Errorf("draw %s: %w", path, err)
	}
	return nil
}

// add adds the bars of one target.
func (k kind) add(p *plot.Plot, cases []*CaseResults, spec target.Spec, shift float64, c color.Color) error {
	heights := make(plotter.Values, len(cases))
	var intervals errorBars
	some := false
	for i, at := range cases {
		for _, t := range at.Targets {
			if t.Spec.Name != spec.Name || t.Rounds == 0 {
				continue
			}
			v := k.of(at, t)
			if !v.ok {
				continue
			}
			some = true
			heights[i] = v.mid
			if !math.IsInf(v.lo, 0) && !math.IsInf(v.hi, 0) {
				intervals.add(float64(i)+shift, v)
			}
		}
	}
	if !some {
		return nil
	}
	bars, err := plotter.NewBarChart(heights, vg.Points(barWidth))
	if err != nil {
		return err
	}
	bars.Color, bars.XMin = c, shift
	bars.LineStyle.Width = 0
	p.Add(bars)
	p.Legend.Add(spec.Title, bars)
	if len(intervals.XYs) == 0 {
		return nil
	}
	lines, err := plotter.NewYErrorBars(intervals)
	if err != nil {
		return err
	}
	lines.CapWidth = vg.Points(barWidth / 2)
	p.Add(lines)
	return nil
}

// colorOf gives the color of the target with a number in the list of all.
func colorOf(n int) color.Color {
	colors := brewer.Paired[maxColors].Colors()
	return colors[n%len(colors)]
}

// errorBars are the intervals of some bars.
type errorBars struct {
	plotter.XYs
	plotter.YErrors
}

func (e *errorBars) add(x float64, v value) {
	e.XYs = append(e.XYs, plotter.XY{X: x, Y: v.mid})
	e.YErrors = append(e.YErrors, struct{ Low, High float64 }{v.mid - v.lo, v.hi - v.mid})
}

func (t TargetResults) measured() bool { return t.Rounds > 0 && t.Latency.TotalCount() > 0 }

func (c *CaseResults) measured() bool {
	return slices.ContainsFunc(c.Targets, TargetResults.measured)
}

// latencies draws quantiles of all targets of a case: the horizontal axis is
// 1/(1-quantile), so that the tail has its room.
func (c *CaseResults) latencies(path, title string) error {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, "quantile", "ms"
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.Y.Tick.Marker = plot.LogTicks{Prec: -1}
	p.X.Tick.Marker = plot.ConstantTicks{{Value: 2, Label: "50 %"}, {Value: 10, Label: "90 %"}, {Value: 100, Label: "99 %"}, {Value: 1000, Label: "99.9 %"}}
	p.Legend.Top, p.Legend.Left = true, true
	p.Add(plotter.NewGrid())
	lo, hi := math.Inf(1), 0.0
	for n, spec := range target.Specs() {
		for _, t := range c.Targets {
			if t.Spec.Name != spec.Name || !t.measured() {
				continue
			}
			var line plotter.XYs
			for x := 1.25; x <= 1000; x *= 1.25 {
				ms := float64(t.Latency.ValueAtQuantile(100*(1-1/x))) / 1e6
				line = append(line, plotter.XY{X: x, Y: ms})
				lo, hi = min(lo, ms), max(hi, ms)
			}
			l, err := plotter.NewLine(line)
			if err != nil {
				return fmt.Errorf("draw %s: %w", path, err)
			}
			l.Color, l.Width = colorOf(n), vg.Points(1.5)
			p.Add(l)
			p.Legend.Add(spec.Title, l)
		}
	}
	p.Y.Min, p.Y.Max = lo/1.5, hi*1.5 // not equal, however alike the values are
	if err := p.Save(vg.Points(520), vg.Points(chartHeight), path); err != nil {
		return fmt.Errorf("draw %s: %w", path, err)
	}
	return nil
}
