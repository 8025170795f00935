package contest

import (
	"context"
	"time"
)

// Duel are the rounds of two contestants at one number of connections, pair by pair.
type Duel struct {
	A, B        *Contestant
	Connections int
	Duration    time.Duration
	OfA, OfB    []Figures
}

// Duel lets two contestants alternate: a warm-up round each that does not count, then so many pairs of rounds.
func (a *Arena) Duel(
	ctx context.Context, first, second *Contestant, connections, pairs int, duration time.Duration,
) (*Duel, error) {
	d := &Duel{A: first, B: second, Connections: connections, Duration: duration}
	for pair := range pairs + 1 {
		order := []*Contestant{first, second}
		if pair%2 == 1 {
			order = []*Contestant{second, first}
		}
		for _, c := range order {
			figures, err := a.Measure(ctx, c, connections, duration)
			switch {
			case err != nil:
				return nil, err
			case pair == 0: // warm-up
			case c == first:
				d.OfA = append(d.OfA, figures)
			default:
				d.OfB = append(d.OfB, figures)
			}
		}
	}
	return d, nil
}
