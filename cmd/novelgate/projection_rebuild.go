package main

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/projections"
	"novelgate/projections/rebuild"
)

// ProjectionRebuild is `novelgate projection rebuild`.
type ProjectionRebuild struct {
	DatabaseFlags
	OutputFlags
	Name    string    `arg:"" help:"Name of the projection, as projection list shows it; or titles, threads, integrations, persons, author_decisions."`
	Workers *positive `placeholder:"N" help:"Connections that load the log (default: one for each processor, and one)."`
	Urgent  bool      `help:"Keep up full speed while others append, at the cost of who waits for an answer."`
}

// Run rebuilds, showing how far it is.
func (c *ProjectionRebuild) Run(in *invocation) error {
	projection, inline, err := projections.Find(c.Name)
	if err != nil {
		return err
	}
	collectRarely()
	return c.withPool(in, func(pool *pgxpool.Pool) error {
		progress := newProgress(in.stderr, in.now)
		begun := in.now()
		config := rebuild.Config{
			Pool: pool, Projection: projection, Inline: inline, Progress: progress.show,
			Logger: slog.New(slog.NewTextHandler(in.stderr, nil)),
		}
		if c.Workers != nil {
			config.Workers = int(*c.Workers)
		}
		if !c.Urgent {
			config.Now = in.now
		}
		result, err := rebuild.Run(in.ctx, config)
		progress.end()
		if err != nil {
			if !errors.Is(err, rebuild.ErrUnderWay) {
				fmt.Fprintln(in.stderr,
					"The live tables are as they were. The same command goes on with this rebuild; `novelgate projection discard` "+
						"gives it up.")
			}
			return err
		}
		return c.print(in, result, func() {
			took := in.now().Sub(begun)
			fmt.Fprintf(in.stdout, "%s was built anew from %d events in %v, %.0f events/s\n", c.Name, result.Events,
				took.Round(time.Millisecond), float64(result.Events)/max(took.Seconds(), 0.001))
		})
	})
}
