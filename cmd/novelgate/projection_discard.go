package main

import (
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/projections"
	"novelgate/projections/rebuild"
)

// ProjectionDiscard is `novelgate projection discard`.
type ProjectionDiscard struct {
	DatabaseFlags
	OutputFlags
	Name string `arg:"" help:"Name of the projection, as projection list shows it; or titles, threads, integrations, persons, author_decisions."`
}

// Run gives the unfinished rebuild up.
func (c *ProjectionDiscard) Run(in *invocation) error {
	projection, _, err := projections.Find(c.Name)
	if err != nil {
		return err
	}
	return c.withPool(in, func(pool *pgxpool.Pool) error {
		discarded, err := rebuild.Discard(in.ctx, pool, projection)
		if err != nil {
			return err
		}
		return c.print(in, discarded, func() {
			fmt.Fprintf(in.stdout,
				"The unfinished rebuild of %s, %s after %d events, is discarded. The live tables are as they were.\n",
				c.Name, discarded.Phase, discarded.EventsDone)
		})
	})
}
