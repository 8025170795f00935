package main

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events/ledger/verify"
	"novelgate/projections"
	"novelgate/projections/rebuild"
)

// compareProjections replays the log for one projection after another, and adds what differs to the report.
func (v *verification) compareProjections(in *invocation, pool *pgxpool.Pool) error {
	for _, p := range append(projections.All(), projections.Inline()...) {
		_, inline, err := projections.Find(p.Name())
		if err != nil {
			return err
		}
		progress := func(rebuild.Progress) {}
		if isTerminal(in.stderr) {
			bar := in.progress("replay "+p.Name(), "events")
			progress = func(at rebuild.Progress) { bar(int64(at.Done), v.Size) }
		}
		compared, err := rebuild.Compare(in.ctx, rebuild.Config{
			Pool: pool, Projection: p, Inline: inline, Progress: progress, Logger: slog.New(slog.NewTextHandler(in.stderr, nil)),
		})
		switch {
		case errors.Is(err, rebuild.ErrNotComparable):
			v.Add(verify.Fault{Part: verify.Projection(p.Name()), Count: 1, Detail: err.Error()})
			continue
		case errors.Is(err, rebuild.ErrMayNotCreate):
			return fmt.Errorf("%w: the replay needs one beside the live tables. Grant CREATE on the database to this role, or "+
				"leave the projections out with --no-projections", err)
		case err != nil:
			return err
		}
		v.Projections = append(v.Projections, compared)
		v.addDifferences(&compared)
	}
	return nil
}

// addDifferences adds a fault for each row that is named, and one for all others of its table.
func (v *verification) addDifferences(c *rebuild.Comparison) {
	for i := range c.Tables {
		t := &c.Tables[i]
		for j := range t.Differences {
			v.Add(verify.Fault{
				Part: verify.Projection(c.Name), Count: 1, Detail: "table " + t.Name + ": " + t.Differences[j].String(),
			})
		}
		if more := t.DifferenceCount - int64(len(t.Differences)); more > 0 {
			v.Add(verify.Fault{
				Part: verify.Projection(c.Name), Count: more, Detail: fmt.Sprintf("table %s: %d rows more differ", t.Name, more),
			})
		}
	}
}

// replayed says what was compared in a line.
func replayed(c *rebuild.Comparison) string {
	tables := make([]string, len(c.Tables))
	for i, t := range c.Tables {
		agrees := "as the live ones"
		if t.DifferenceCount > 0 {
			agrees = fmt.Sprintf("the live ones DIFFER in %d", t.DifferenceCount)
		}
		tables[i] = fmt.Sprintf("%s %d rows, %s", t.Name, t.ReplayedRows, agrees)
	}
	return fmt.Sprintf("%s up to %s: %s", c.Name, c.Position, strings.Join(tables, "; "))
}
