package console

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestChart: the largest value has the full height, a small one is visible, and no value divides by zero.
func TestChart(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ values, want []float64 }{
		{nil, nil}, {[]float64{0, 0}, []float64{0, 0}}, {[]float64{0, 1, 500, 1000}, []float64{0, 1, 50, 100}},
	} {
		var points []point
		for _, value := range c.values {
			points = append(points, point{Value: value})
		}
		var heights []float64
		for _, b := range newChart("", "", points).Bars {
			heights = append(heights, float64(b.Height))
			if b.Y+b.Height != chartHeight {
				t.Errorf("%v: %+v does not stand on the ground", c.values, b)
			}
		}
		if diff := cmp.Diff(c.want, heights); diff != "" {
			t.Errorf("%v (-want +got):\n%s", c.values, diff)
		}
	}
}
