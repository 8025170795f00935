package contest

import (
	"context"
	"errors"
	"fmt"
)

// ErrLost is returned when a contestant has acknowledged comments that it has not stored, or stored more than it was
// sent.
var ErrLost = errors.New("acknowledged and stored comments differ")

// audit counts what a contestant was asked for since its first round.
type audit struct {
	begun    bool
	before   int // comments stored before the first round
	accepted int
	failed   int // answers that do not say whether the comment was stored
}

func (a *audit) add(figures Figures) {
	a.accepted += figures.Accepted
	for _, n := range figures.Failed {
		a.failed += n
	}
}

func (c *Contestant) beginAudit(ctx context.Context) (err error) {
	if !c.audit.begun {
		c.audit.begun = true
		c.audit.before, err = c.stored(ctx)
	}
	return err
}

// Audit fails with ErrLost unless the comments that were accepted in all rounds are stored, and no others.
func (c *Contestant) Audit(ctx context.Context) error {
	now, err := c.stored(ctx)
	if err != nil {
		return err
	}
	if got := now - c.audit.before; got < c.audit.accepted || got > c.audit.accepted+c.audit.failed {
		return fmt.Errorf("%w: %s accepted %d and stored %d", ErrLost, c.Name, c.audit.accepted, got)
	}
	return nil
}

func (c *Contestant) stored(ctx context.Context) (int, error) {
	var n int
	if err := c.database.QueryRow(ctx, c.storedSQL).Scan(&n); err != nil {
		return 0, fmt.Errorf("count the comments of %s: %w", c.Name, err)
	}
	return n, nil
}
