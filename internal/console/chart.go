package console

import "math"

// chart is a bar chart for the template of that name: SVG with attributes and classes only, which the policy allows.
type chart struct {
	Title   string
	Summary string // says in words what the bars show, also to those who do not see them
	Width   int    // of the picture; its height is chartHeight
	Bars    []bar
}

// bar is a bar of a chart. Label is shown when one points at it.
type bar struct {
	X, Y, Height int
	Label        string
	Past         bool // is only there to compare with
}

// The units of the picture, which takes the width of the page.
const (
	chartHeight = 100
	barStep     = 10 // from one bar to the next
)

// point is a value of a chart. Its label has the value and what it belongs to.
type point struct {
	Value float64
	Label string
	Past  bool
}

// newChart returns a chart in which the largest value has the full height. A value above zero is always visible.
func newChart(title, summary string, points []point) *chart {
	most := 0.0
	for _, p := range points {
		most = max(most, p.Value)
	}
	c := &chart{Title: title, Summary: summary, Width: max(1, len(points)) * barStep}
	for i, p := range points {
		height := 0
		if most > 0 {
			height = int(math.Ceil(p.Value / most * chartHeight))
		}
		c.Bars = append(c.Bars, bar{X: i * barStep, Y: chartHeight - height, Height: height, Label: p.Label, Past: p.Past})
	}
	return c
}
