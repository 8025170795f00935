package main

import (
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/projections"
)

// ProjectionCommand is `novelgate projection …`.
type ProjectionCommand struct {
	List    ProjectionList    `cmd:"" help:"Show where each asynchronous projection stands."`
	Rebuild ProjectionRebuild `cmd:"" help:"Build the tables of a projection anew from the log, while the old ones are in use; goes on with a rebuild that was interrupted."`
	Discard ProjectionDiscard `cmd:"" help:"Give up a rebuild that was interrupted, with all that it has built; the tables in use stay as they are."`
	Retry   ProjectionRetry   `cmd:"" help:"Let a projection that has failed try again."`
	Skip    ProjectionSkip    `cmd:"" help:"Let a projection that has failed go on without the event that it cannot apply."`
}

// ProjectionList is `novelgate projection list`.
type ProjectionList struct {
	DatabaseFlags
	OutputFlags
}

// Run prints position, lag and errors.
func (c *ProjectionList) Run(in *invocation) error {
	return c.withPool(in, func(pool *pgxpool.Pool) error {
		list, err := projections.List(in.ctx, pool)
		if err != nil {
			return err
		}
		return c.print(in, list, func() { printProjections(in, list) })
	})
}

func printProjections(in *invocation, list []projections.Status) {
	rows := make([][]any, len(list))
	for i, p := range list {
		lag, trouble := fmt.Sprint(p.LagEvents), "-"
		if p.LagCapped {
			lag = "over " + lag
		}
		switch {
		case p.Error != nil:
			trouble = *p.Error
		case p.UnknownType != nil:
			trouble = "waits for a newer replica: unknown event type " + *p.UnknownType
		case p.Rebuild != nil && p.Rebuild.Error != nil:
			trouble = *p.Rebuild.Error
		}
		rebuilding := "-"
		if p.Rebuild != nil {
			rebuilding = fmt.Sprintf("%s %.0f%%", p.Rebuild.Phase, 100*p.Rebuild.Share())
		}
		rows[i] = []any{
			p.Name, p.Generation, p.State, fmt.Sprintf("%d/%d", p.TransactionID, p.Position), lag,
			fmt.Sprintf("%.3f", p.LagSeconds), moment(&p.UpdatedAt), rebuilding, trouble,
		}
	}
	in.table([]any{
		"PROJECTION", "GENERATION", "STATE", "POSITION", "LAG EVENTS", "LAG SECONDS", "UPDATED", "REBUILD", "TROUBLE",
	}, rows)
}

// ProjectionRetry is `novelgate projection retry`.
type ProjectionRetry struct {
	DatabaseFlags
	Name string `arg:"" help:"Name of the projection, as projection list shows it."`
}

// Run sets the projection running again.
func (c *ProjectionRetry) Run(in *invocation) error {
	return c.withPool(in, func(pool *pgxpool.Pool) error {
		if err := projections.Retry(in.ctx, pool, c.Name); err != nil {
			return err
		}
		fmt.Fprintln(in.stdout, c.Name, "tries again")
		return nil
	})
}

// ProjectionSkip is `novelgate projection skip`.
type ProjectionSkip struct {
	DatabaseFlags
	OutputFlags
	Name   string `arg:"" help:"Name of the projection, as projection list shows it."`
	Reason string `required:"" help:"Why, for the history."`
}

// Run moves the projection over the event at which it stopped.
func (c *ProjectionSkip) Run(in *invocation) error {
	return c.withPool(in, func(pool *pgxpool.Pool) error {
		skipped, err := projections.Skip(in.ctx, pool, c.Name, actor(), c.Reason)
		if err != nil {
			return err
		}
		return c.print(in, skipped, func() {
			fmt.Fprintf(in.stdout, "%s goes on without event %s (%s, id %s of %s)\n", c.Name, skipped.Position,
				skipped.EventType,
				printable(skipped.EventID), printable(skipped.EventSource))
		})
	})
}
