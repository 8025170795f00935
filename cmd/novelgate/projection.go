package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/projections"
	"novelgate/projections/rebuild"
)

type projectionCommand struct {
	List    projectionList    `cmd:"" help:"Show the state and the lag of each asynchronous projection."`
	Rebuild projectionRebuild `cmd:"" help:"Rebuild the tables of a projection, or continue an interrupted rebuild."`
	Discard projectionDiscard `cmd:"" help:"Discard an interrupted rebuild. The live tables do not change."`
	Retry   projectionRetry   `cmd:"" help:"Make a failed projection try again."`
	Skip    projectionSkip    `cmd:"" help:"Make a failed projection skip the event that it cannot apply."`
}

type projectionList struct{ CommonFlags }

func (c *projectionList) Run(ctx context.Context, env *env) error {
	pool, err := c.pool(ctx, env)
	if err != nil {
		return err
	}
	list, err := projections.List(ctx, pool)
	return projectionColumns.printList(c.output(env), list, err)
}

var projectionColumns = columns[projections.Status]{
	[]any{
		"PROJECTION", "GENERATION", "STATE", "POSITION", "LAG EVENTS", "LAG SECONDS", "UPDATED", "REBUILD", "TROUBLE",
	},
	func(p projections.Status) []any {
		trouble := "-"
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
			rebuilding = fmt.Sprintf("%.0f%%", 100*p.Rebuild.Share())
		}
		return []any{
			p.Name, p.Generation, p.State, p.Position, p.LagEvents, fmt.Sprintf("%.3f", p.LagSeconds),
			formatTime(&p.UpdatedAt), rebuilding, trouble,
		}
	},
}

// RebuildArg names a projection, asynchronous or inline.
type RebuildArg struct {
	CommonFlags
	Name string `arg:"" help:"Name in projection list, or titles, threads, integrations, persons, author_decisions."`
}

// open finds the projection and opens the database.
func (a RebuildArg) open(ctx context.Context, env *env) (p projections.Projection, pool *pgxpool.Pool, err error) {
	if p, err = projections.Find(a.Name); err == nil {
		pool, err = a.pool(ctx, env)
	}
	return p, pool, err
}

type projectionRebuild struct {
	RebuildArg
	Urgent bool `help:"Keep full speed while others append; requests may take longer."`
}

func (*projectionRebuild) Help() string {
	return "The live tables stay in use until the rebuilt ones replace them."
}

func (c *projectionRebuild) Run(ctx context.Context, env *env) error {
	tuneGC()
	out, now := c.output(env), env.now
	projection, pool, err := c.open(ctx, env)
	if err != nil {
		return err
	}
	progress, begun := &progressDisplay{streams: out.streams, now: now, unit: "events"}, now()
	config := rebuild.Config{
		Pool: pool, Projection: projection, Logger: out.logger(slog.LevelInfo),
		Progress: func(at rebuild.Progress) { progress.show("rebuild", int64(at.Done), int64(at.Total)) },
	}
	if !c.Urgent {
		config.Now = now
	}
	result, err := rebuild.Run(ctx, config)
	progress.end()
	if err != nil {
		// Progress is shown from the moment at which a rebuild is on record.
		if progress.phase != "" && !errors.Is(err, rebuild.ErrStructure) && !errors.Is(err, rebuild.ErrTakenOver) {
			fmt.Fprintln(out.stderr,
				"The live tables have not changed. The same command continues this rebuild; `novelgate projection discard` "+
					"discards it.")
		}
		return err
	}
	return out.print(result, func() {
		took := now().Sub(begun)
		fmt.Fprintf(out.stdout, "%s was rebuilt from %d events in %v, %.0f events/s\n", c.Name, result.Events,
			took.Round(time.Millisecond), float64(result.Events)/max(took.Seconds(), 0.001))
	})
}

type projectionDiscard struct{ RebuildArg }

func (c *projectionDiscard) Run(ctx context.Context, env *env) error {
	out := c.output(env)
	projection, pool, err := c.open(ctx, env)
	if err != nil {
		return err
	}
	discarded, err := rebuild.Discard(ctx, pool, projection)
	if err != nil {
		return err
	}
	return out.print(discarded, func() {
		fmt.Fprintf(out.stdout,
			"The unfinished rebuild of %s, after %d events, is discarded. The live tables have not changed.\n",
			c.Name, discarded.EventsDone)
	})
}

type projectionRetry struct {
	DatabaseFlags
	Name string `arg:"" help:"Name of the projection, as projection list shows it."`
}

func (c *projectionRetry) Run(ctx context.Context, env *env) error {
	pool, err := c.pool(ctx, env)
	if err != nil {
		return err
	}
	if err := projections.Retry(ctx, pool, c.Name); err != nil {
		return err
	}
	fmt.Fprintln(env.stdout, c.Name, "tries again")
	return nil
}

type projectionSkip struct {
	CommonFlags
	Name string `arg:"" help:"Name of the projection, as projection list shows it."`
	RequiredReason
}

func (c *projectionSkip) Run(ctx context.Context, env *env) error {
	out := c.output(env)
	pool, err := c.pool(ctx, env)
	if err != nil {
		return err
	}
	skipped, err := projections.Skip(ctx, pool, c.Name, actor(), c.Reason)
	if err != nil {
		return err
	}
	return out.print(skipped, func() {
		fmt.Fprintf(out.stdout, "%s goes on without event %d (%s, id %s of %s)\n", c.Name, skipped.LogIndex,
			skipped.EventType, printable(skipped.EventID), printable(skipped.EventSource))
	})
}
