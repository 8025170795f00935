package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/commands/staff"
	"novelgate/internal/auth"
	"novelgate/projections"
	"novelgate/projections/rebuild"
)

type projectionCommand struct {
	List    CommonFlags       `cmd:"" help:"Show the state and the lag of each asynchronous projection."`
	Rebuild projectionRebuild `cmd:"" help:"Rebuild the tables of a projection, or continue an interrupted rebuild."`
	Discard RebuildArg        `cmd:"" help:"Discard an interrupted rebuild. The live tables do not change."`
	Retry   ProjectionArg     `cmd:"" help:"Make a failed projection try again."`
	Skip    struct {
		ProjectionArg
		RequiredReason
	} `cmd:"" help:"Make a failed projection skip the event that it cannot apply."`
}

// ProjectionArg names an asynchronous projection.
type ProjectionArg struct {
	CommonFlags
	Name string `arg:"" help:"Name of the projection, as projection list shows it."`
}

// RebuildArg names a projection, asynchronous or inline.
type RebuildArg struct {
	CommonFlags
	Name string `arg:"" help:"Name in projection list, or titles, threads, integrations, persons, author_decisions."`
}

type projectionRebuild struct {
	RebuildArg
	Urgent bool `help:"Keep full speed while others append; requests may take longer."`
}

func (*projectionRebuild) Help() string {
	return "The live tables stay in use until the rebuilt ones replace them."
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

func (c *projectionCommand) run(ctx context.Context, env *environment) error {
	projection, err := projections.Projection(nil), error(nil)
	if name := cmp.Or(c.Rebuild.Name, c.Discard.Name); name != "" {
		projection, err = projections.Find(name)
	}
	if err != nil {
		return err
	}
	pool, err := env.pool(ctx)
	if err != nil {
		return err
	}
	switch env.verb {
	case "list":
		return env.show(projectionColumns.list(projections.List(ctx, pool)))
	case "rebuild":
		return env.show(c.Rebuild.rebuild(ctx, env, pool, projection))
	case "discard":
		discarded, err := rebuild.Discard(ctx, pool, projection)
		return env.show(said(discarded, err,
			"The unfinished rebuild of %s, after %d events, is discarded. The live tables have not changed.",
			c.Discard.Name, discarded.EventsDone))
	case "retry":
		err := projections.Retry(ctx, pool, c.Retry.Name)
		return env.show(said(map[string]string{"name": c.Retry.Name}, err, "%s tries again", c.Retry.Name))
	default: // skip
		if auth.HasKey(c.Skip.Reason) {
			return staff.ErrHasKey
		}
		skipped, err := projections.Skip(ctx, pool, c.Skip.Name, actor(), c.Skip.Reason)
		return env.show(said(skipped, err, "%s goes on without event %d (%s, id %s of %s)", c.Skip.Name, skipped.LogIndex,
			skipped.EventType, printable(skipped.EventID), printable(skipped.EventSource)))
	}
}

func (c *projectionRebuild) rebuild(
	ctx context.Context, env *environment, pool *pgxpool.Pool, projection projections.Projection,
) (result, error) {
	tuneGC()
	begun, isOnRecord, progress := env.now(), false, env.progress("rebuild", "events")
	config := rebuild.Config{
		Pool: pool, Projection: projection, Logger: env.logger(),
		Progress: func(at rebuild.Progress) {
			isOnRecord = true // from then on
			progress(int64(at.Done), int64(at.Total))
		},
	}
	if !c.Urgent {
		config.Now = env.now
	}
	rebuilt, err := rebuild.Run(ctx, config)
	if err != nil && isOnRecord && !errors.Is(err, rebuild.ErrStructure) && !errors.Is(err, rebuild.ErrTakenOver) {
		fmt.Fprintf(env.stderr, "The live tables have not changed. The same command continues this rebuild; "+
			"`novelgate projection discard %s` discards it.\n", c.Name)
	}
	took := env.now().Sub(begun)
	return said(rebuilt, err, "%s was rebuilt from %d events in %v, %.0f events/s", c.Name, rebuilt.Events,
		took.Round(time.Millisecond), float64(rebuilt.Events)/max(took.Seconds(), 0.001))
}
