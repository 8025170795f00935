package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"text/tabwriter"
)

// cellsCommand is `bench cells`. A cell is one of several independent logs, each of which has some of the novels.
type cellsCommand struct {
	Titles int    `default:"10000" help:"How many novels there are."`
	Trials int    `default:"1000" help:"How many random assignments of novels to cells are tried."`
	Seed   uint64 `default:"1" help:"Seed of the assignments."`
}

// Run prints how much more than an even share the busiest cell gets. The n-th most popular novel gets 1/n^s of the
// comments of the most popular one.
func (c *cellsCommand) Run() error {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight) // Flush returns its errors
	_, _ = fmt.Fprintln(w, "s\tlargest novel\tcells\tbusiest cell, median\t95 of 100\tcapacity\t")
	for _, s := range []float64{0.6, 0.8, 1, 1.2} {
		weights := make([]float64, c.Titles)
		total := 0.0
		for i := range weights {
			weights[i] = math.Pow(float64(i+1), -s)
			total += weights[i]
		}
		for _, cells := range []int{2, 4, 8, 16} {
			busiest := c.busiest(weights, total, cells)
			median := busiest[len(busiest)/2]
			_, _ = fmt.Fprintf(w, "%.1f\t%.1f %%\t%d\t%.2f\t%.2f\t%.1f\t\n", s, 100*weights[0]/total, cells, median,
				busiest[len(busiest)*95/100], float64(cells)/median)
		}
	}
	return w.Flush()
}

// busiest returns the load of the busiest cell in each trial, as a multiple of an even share, in ascending order.
func (c *cellsCommand) busiest(weights []float64, total float64, cells int) []float64 {
	random := rand.New(rand.NewPCG(c.Seed, uint64(cells))) //nolint:gosec // a simulation that can be repeated
	busiest := make([]float64, c.Trials)
	for trial := range busiest {
		load := make([]float64, cells)
		for _, weight := range weights {
			load[random.IntN(cells)] += weight
		}
		busiest[trial] = slices.Max(load) * float64(cells) / total
	}
	slices.Sort(busiest)
	return busiest
}
