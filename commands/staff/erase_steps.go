package staff

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/projections"
)

const (
	eraseBatch = 500                   // events in one transaction: every writing one holds up the readers of the log
	eraseWait  = 10 * time.Second      // the longest that the ledger is waited for
	erasePoll  = 20 * time.Millisecond // how often it is asked
)

// notSealed is the SQLSTATE object_not_in_prerequisite_state, with which erase_author_events refuses.
const notSealed = "55000"

var (
	//go:embed erase_posts.sql
	erasePostsSQL string
	//go:embed erase_scan.sql
	eraseScanSQL string
	//go:embed erase_skipped.sql
	eraseSkippedSQL string
)

const (
	eraseCheckpointSQL = `SELECT transaction_id, position FROM projections WHERE name = 'posts'`
	eraseDecidedSQL    = `SELECT EXISTS (SELECT FROM author_decisions WHERE author_id = $1 AND (external_uuid IS NOT NULL OR member_id IS NOT NULL))`
	eraseSQL           = `SELECT erase_author_events($1, $2, $3)`
	settledSQL         = `SELECT $1::xid8 < pg_snapshot_xmin(pg_current_snapshot())`
)

// findings are what there is to erase of an author.
type findings struct {
	projected []uuid.UUID     // posts that the table shows as theirs, and those that staff had it skip
	searched  events.Position // which is all up to here
	rest      []uuid.UUID     // of what comes behind, as far as it is settled
	decisions int
	decided   bool // author_decisions names them
}

func (f findings) nothing() bool { return len(f.projected)+len(f.rest) == 0 && !f.decided }

func (e eraser) find(ctx context.Context) (findings, error) {
	var f findings
	// The checkpoint first: the table, read later, holds all up to there at least. A projection that never ran has none.
	err := e.Pool.QueryRow(ctx, eraseCheckpointSQL).Scan(&f.searched.TransactionID, &f.searched.Ordinal)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return f, fmt.Errorf("read how far the posts are: %w", err)
	}
	if f.projected, err = e.ids(ctx, erasePostsSQL, e.name.id()); err != nil {
		return f, err
	}
	skipped, err := e.skipped(ctx)
	if err != nil {
		return f, err
	}
	f.projected = append(f.projected, skipped...)
	if f.rest, err = e.scan(ctx, f.searched, events.Position{
		TransactionID: math.MaxInt64,
		Ordinal:       math.MaxInt32,
	}); err != nil {
		return f, err
	}
	f.rest = slices.DeleteFunc(f.rest, func(id uuid.UUID) bool { return slices.Contains(f.projected, id) })
	if err := e.Pool.QueryRow(ctx, eraseDecidedSQL, e.name.id()).Scan(&f.decided); err != nil {
		return f, fmt.Errorf("read decisions: %w", err)
	}
	history, err := eventlog.ReadStream(ctx, e.Pool, events.AuthorStream, e.name.id(), 0)
	for i := range history {
		if events.Personal(history[i].Event) != nil {
			f.decisions++
		}
	}
	return f, err
}

// skipped returns comments of the author that the posts lack, because staff had the projection skip them.
func (e eraser) skipped(ctx context.Context) ([]uuid.UUID, error) {
	deliveries, err := projections.Skipped(ctx, e.Pool, projections.Posts{}.Name())
	if err != nil || len(deliveries) == 0 {
		return nil, err
	}
	keys := make([]string, 0, len(deliveries))
	for delivery := range deliveries {
		if delivery.Source == events.PostsSource(e.name.IntegrationID) {
			keys = append(keys, delivery.ID)
		}
	}
	return e.ids(ctx, eraseSkippedSQL, keys, events.PostsSource(e.name.IntegrationID), e.name.ExternalUUID)
}

// scan reads the log between two positions and returns the comments of the author.
func (e eraser) scan(ctx context.Context, after, before events.Position) ([]uuid.UUID, error) {
	return e.ids(ctx, eraseScanSQL, after.TransactionID, after.Ordinal, before.TransactionID, before.Ordinal,
		events.PostsSource(e.name.IntegrationID), e.name.ExternalUUID)
}

func (e eraser) ids(ctx context.Context, sql string, args ...any) ([]uuid.UUID, error) {
	rows, err := e.Pool.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("find comments: %w", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return nil, fmt.Errorf("find comments: %w", err)
	}
	return ids, nil
}

// erase erases what is the author's in these streams, a few in each transaction.
func (e eraser) erase(ctx context.Context, streams []uuid.UUID) error {
	for some := range slices.Chunk(streams, eraseBatch) {
		if err := e.await(ctx, func() (bool, error) {
			_, err := e.Pool.Exec(ctx, eraseSQL, e.name.IntegrationID, e.name.ExternalUUID, some)
			var refused *pgconn.PgError
			switch {
			case err == nil:
				return true, nil
			case eventlog.IsConflict(err), errors.As(err, &refused) && refused.Code == notSealed:
				return false, nil // two who erase the same author may be in each other's way
			default:
				return false, fmt.Errorf("erase: %w", err)
			}
		}); err != nil {
			return err
		}
	}
	return nil
}

// settled waits until nothing can be appended before a position any more.
func (e eraser) settled(ctx context.Context, at events.Position) error {
	return e.await(ctx, func() (settled bool, err error) {
		if err := e.Pool.QueryRow(ctx, settledSQL, at.TransactionID).Scan(&settled); err != nil {
			return false, fmt.Errorf("look whether the log is settled: %w", err)
		}
		return settled, nil
	})
}

// await tries until it is done, for a while. It fails with ErrNotSealed.
func (e eraser) await(ctx context.Context, try func() (bool, error)) error {
	deadline := time.NewTimer(eraseWait)
	defer deadline.Stop()
	for {
		if done, err := try(); done || err != nil {
			return err
		}
		select {
		case <-deadline.C:
			return ErrNotSealed
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrNotSealed, ctx.Err())
		case <-time.After(erasePoll):
		}
	}
}
