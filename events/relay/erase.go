package relay

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"novelgate/events"
)

// erasedPrefix begins the type of the event author.erased in all its versions.
const erasedPrefix = "author.erased."

// erasedSQL finds the erased events below a log index. $1: the log index.
const erasedSQL = `SELECT s.first_log_index + e.position
FROM events AS e JOIN ledger_seals AS s ON s.transaction_id = e.transaction_id
WHERE e.personal_digest IS NOT NULL AND s.first_log_index + e.position < $1`

// remainingSQL finds events that an erasure may not have erased yet when it appends author.erased: comments after the
// position up to which it has searched the log, and decisions about the author. $1, $2: that position; $3, $4:
// position of author.erased; $5: integration; $6: author; $7: stream version of author.erased.
const remainingSQL = `SELECT s.first_log_index + e.position, e.personal ->> 'uuid'
FROM events AS e JOIN ledger_seals AS s ON s.transaction_id = e.transaction_id
WHERE (e.transaction_id, e.position) > ($1, $2) AND (e.transaction_id, e.position) < ($3, $4)
    AND e.integration_id = $5 AND e.event_source = 'posts' AND e.personal IS NOT NULL
UNION ALL
SELECT s.first_log_index + e.position, e.personal ->> 'uuid'
FROM events AS e JOIN ledger_seals AS s ON s.transaction_id = e.transaction_id
WHERE e.stream_id = $6 AND e.stream_version < $7 AND e.personal IS NOT NULL`

// eraseFor deletes the personal messages that author.erased erases. The log does not have the author of an erased
// event, so eraseFor deletes the messages of all erased events before author.erased. It looks for the remaining events
// first: in the other order, neither statement would find an event that is erased in between.
func (t *turn) eraseFor(ctx context.Context, m *message) error {
	indexes, err := t.remaining(ctx, m)
	if err != nil {
		return err
	}
	if err := t.erase(ctx, indexes); err != nil {
		return err
	}
	return t.eraseUpTo(ctx, m.index)
}

// remaining returns the log indexes of the author's events before an author.erased that are not erased yet.
func (t *turn) remaining(ctx context.Context, m *message) (indexes []int64, err error) {
	recorded, err := m.row.Decode()
	if err != nil {
		return nil, fmt.Errorf("read the erasure of log index %d: %w", m.index, err)
	}
	erased, ok := recorded.Event.(events.AuthorErased)
	if !ok {
		return nil, fmt.Errorf("read the erasure of log index %d: it is a %T", m.index, recorded.Event)
	}
	searched, err := erased.SearchedAt(m.row.Position)
	if err != nil {
		return nil, fmt.Errorf("read the erasure of log index %d: %w", m.index, err)
	}
	rows, _ := t.db.Query(ctx, remainingSQL, searched.TransactionID, searched.Ordinal, // ForEachRow returns its error
		m.row.Position.TransactionID, m.row.Position.Ordinal, erased.IntegrationID, m.row.StreamID, m.row.StreamVersion)
	var index int64
	var externalUUID string
	if _, err := pgx.ForEachRow(rows, []any{&index, &externalUUID}, func() error {
		if events.AuthorID(erased.IntegrationID, externalUUID) == m.row.StreamID {
			indexes = append(indexes, index)
		}
		return nil
	}); err != nil {
		return nil, fmt.Errorf("find what log index %d erases: %w", m.index, err)
	}
	return indexes, nil
}

// eraseUpTo deletes the messages of all erased events below a log index.
func (t *turn) eraseUpTo(ctx context.Context, end int64) error {
	rows, _ := t.db.Query(ctx, erasedSQL, end) // CollectRows returns its error
	indexes, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return fmt.Errorf("find erased events: %w", err)
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
