package digests

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/naive"
	"novelgate/projections"
	"novelgate/projections/rebuild"
)

// Why a check fails.
var (
	ErrDiffer = errors.New("the tables are not what the log says")
	ErrGrown  = errors.New("somebody has appended meanwhile: digests can be compared while nobody does")
)

// Check compares the tables of all projections. The asynchronous ones must run, or have run up to the end of the log.
type Check struct {
	Pool  *pgxpool.Pool
	Now   func() time.Time
	Print func(text string) error
}

// Run prints the digests of each table as it is, as it is after a rebuild, and as the naive fold has it. It fails with
// ErrDiffer and the first row that differs.
func (c *Check) Run(ctx context.Context) error {
	begun := c.Now()
	if err := c.awaitProjections(ctx); err != nil {
		return err
	}
	waited := c.Now()
	want, read, end, err := c.fold(ctx)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("The projections had caught up after %.1f s; the naive fold of %d events took %.1f s.\n",
		waited.Sub(begun).Seconds(), read, c.Now().Sub(waited).Seconds())
	if err := c.Print(text + fmt.Sprintf(line, "table", "rows", "incremental", "rebuilt", "naive fold",
		"rebuild")); err != nil {
		return err
	}
	var differ []error
	for _, projection := range projections.All() {
		differ = append(differ, c.compare(ctx, projection, false, want))
	}
	for _, projection := range projections.Inline() {
		differ = append(differ, c.compare(ctx, projection, true, want))
	}
	last, err := eventlog.Last(ctx, c.Pool)
	if err != nil {
		return err
	}
	if last != end {
		return ErrGrown // whatever differs
	}
	return errors.Join(differ...)
}

// caughtUpSQL returns whether every projection is at the end of the log, and those that have failed.
const caughtUpSQL = `SELECT coalesce(bool_and(p.transaction_id = e.transaction_id AND p.position = e.position), true),
       coalesce(string_agg(p.name, ', ') FILTER (WHERE p.state = 'failed'), '')
FROM projections AS p, (SELECT transaction_id, position FROM events ORDER BY transaction_id DESC, position DESC LIMIT 1) AS e`

var errFailed = errors.New("these projections have failed")

func (c *Check) awaitProjections(ctx context.Context) error {
	const pause = 50 * time.Millisecond
	for {
		var caughtUp bool
		var failed string
		if err := c.Pool.QueryRow(ctx, caughtUpSQL).Scan(&caughtUp, &failed); err != nil {
			return fmt.Errorf("look at the projections: %w", err)
		}
		if failed != "" {
			return fmt.Errorf("%w: %s", errFailed, failed)
		}
		if caughtUp {
			return nil
		}
		if !eventlog.Sleep(ctx, pause) {
			return fmt.Errorf("wait for the projections: %w", ctx.Err())
		}
	}
}

// fold reads the log to its end.
func (c *Check) fold(ctx context.Context) (tables map[string]naive.Rows, read int, end events.Position, err error) {
	const chunk = 5000
	fold := naive.New()
	for {
		log, err := eventlog.ReadAfter(ctx, c.Pool, end, chunk)
		if err != nil {
			return nil, 0, end, err
		}
		for i := range log {
			fold.Add(&log[i])
			end = log[i].Position
		}
		if read += len(log); len(log) < chunk {
			break
		}
	}
	tables, err = fold.Tables()
	return tables, read, end, err
}

const line = "%-21s %8s  %-16s %-16s %-16s %s\n"

// compare digests the tables of a projection, rebuilds it, and digests them again.
func (c *Check) compare(
	ctx context.Context, projection projections.Projection, inline bool, want map[string]naive.Rows,
) error {
	live := map[string]naive.Rows{}
	for _, table := range projection.Tables() {
		rows, err := naive.Read(ctx, c.Pool, table)
		if err != nil {
			return err
		}
		live[table] = rows
	}
	begun := c.Now()
	_, err := rebuild.Run(ctx,
		rebuild.Config{Pool: c.Pool, Projection: projection, Inline: inline, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	took := fmt.Sprintf("%.1f s", c.Now().Sub(begun).Seconds())
	var differ []error
	for _, table := range projection.Tables() {
		folded, known := want[table]
		if !known {
			return fmt.Errorf("%w: the naive fold knows no table %s", ErrDiffer, table)
		}
		rebuilt, err := naive.Read(ctx, c.Pool, table)
		if err != nil {
			return err
		}
		// The first half of a digest will do for the eye.
		digests := []string{live[table].Digest(), rebuilt.Digest(), folded.Digest()}
		if err := c.Print(fmt.Sprintf(line, table, fmt.Sprint(len(folded)), digests[0][:16], digests[1][:16], digests[2][:16],
			took)); err != nil {
			return err
		}
		took = ""
		differ = append(differ, difference(table+", incremental", live[table], folded),
			difference(table+", rebuilt", rebuilt, folded))
	}
	return errors.Join(differ...)
}

func difference(what string, got, want naive.Rows) error {
	if got.Digest() == want.Digest() {
		return nil
	}
	row, folded := got.FirstDifference(want)
	return fmt.Errorf("%w: %s: the first row that is wrong is\n  %s\nand the first that is missing\n  %s", ErrDiffer, what,
		orNone(row), orNone(folded))
}

func orNone(row string) string {
	if row == "" {
		return "no such row"
	}
	return strings.ToValidUTF8(row, "?")
}
