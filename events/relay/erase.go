package relay

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"novelgate/events/eventlog"
)

// Prefixes of the types of events that record an erasure, in all their versions.
const (
	erasedPrefix    = "author.erased."
	withdrawnPrefix = "post.withdrawn."
)

// Statements that find erased events: all below a log index, those of streams.
const (
	erasedSQL    = `SELECT log_index FROM events WHERE personal_digest IS NOT NULL AND log_index < $1`
	withdrawnSQL = `SELECT log_index FROM events WHERE personal_digest IS NOT NULL AND stream_id = ANY ($1)`
)

// eraseUpTo deletes the messages of all erased events below a log index. At author.erased these are all that it erases,
// and others: the log does not have the author of an erased event.
func (t *turn) eraseUpTo(ctx context.Context, end int64) error {
	return t.eraseFound(ctx, erasedSQL, end)
}

// eraseBefore deletes the messages of all events that events of the list erase: a withdrawal those of its comment.
func (t *turn) eraseBefore(ctx context.Context, list []message) error {
	var withdrawn []uuid.UUID
	end := int64(-1)
	for i := range list {
		switch row := list[i].row; {
		case strings.HasPrefix(row.Type, erasedPrefix):
			end = row.LogIndex
		case strings.HasPrefix(row.Type, withdrawnPrefix):
			withdrawn = append(withdrawn, row.StreamID)
		}
	}
	if len(withdrawn) > 0 {
		if err := t.eraseFound(ctx, withdrawnSQL, withdrawn); err != nil {
			return err
		}
	}
	if end < 0 {
		return nil
	}
	return t.eraseUpTo(ctx, end)
}

// eraseFound deletes the messages of the events that a statement finds.
func (t *turn) eraseFound(ctx context.Context, sql string, arg any) error {
	rows, _ := t.db.Query(ctx, sql, arg) // CollectRows returns its error
	indexes, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return fmt.Errorf("find erased events: %w", err)
	}
	if err := eventlog.AwaitReplicated(ctx, t.db); err != nil { // a failover must not bring back what is deleted here
		return err
	}
	return t.erase(ctx, indexes)
}

// concurrentDeletes limits the messages that are deleted at a time.
const concurrentDeletes = 16

// erase makes the servers overwrite and delete messages of the personal stream. It skips messages that are deleted or
// empty, or that this turn has erased.
func (t *turn) erase(ctx context.Context, indexes []int64) error {
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(concurrentDeletes)
	for _, index := range indexes {
		if t.erased[index] {
			continue
		}
		group.Go(func() error {
			sequence := uint64(index + 1) //nolint:gosec // a log index
			found, err := t.personal.GetMsg(groupCtx, sequence)
			switch {
			case errors.Is(err, jetstream.ErrMsgNotFound) || err == nil && len(found.Data) == 0:
				return nil
			case err == nil:
				err = t.personal.SecureDeleteMsg(groupCtx, sequence)
			}
			if err != nil {
				return fmt.Errorf("erase log index %d from %s: %w", index, t.personal.name, err)
			}
			t.config.Metrics.erasures.Inc()
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err // wrapped above
	}
	for _, index := range indexes {
		t.erased[index] = true
	}
	return nil
}
