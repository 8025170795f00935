package main

import (
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/projections"
)

// ProjectionCommand is `novelgate projection …`.
type ProjectionCommand struct {
	List  ProjectionList  `cmd:"" help:"Show where each asynchronous projection stands."`
	Retry ProjectionRetry `cmd:"" help:"Let a projection that has failed try again."`
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
		}
		rows[i] = []any{p.Name, p.Generation, p.State, fmt.Sprintf("%d/%d", p.TransactionID, p.Position), lag, fmt.Sprintf("%.3f", p.LagSeconds), moment(&p.UpdatedAt), trouble}
	}
	in.table([]any{"PROJECTION", "GENERATION", "STATE", "POSITION", "LAG EVENTS", "LAG SECONDS", "UPDATED", "TROUBLE"}, rows)
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
