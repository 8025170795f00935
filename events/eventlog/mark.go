package eventlog

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/events"
	"novelgate/internal/database"
)

// Mark identifies the part of the log before a position. Two copies of the log in which the last event of that part has
// the same batch have the same events before the position: an append has a random id of its own, and is stored as a
// whole or not at all.
//
// A position that is stored in the database of the log moves with the log, through every failover and restore. A
// position that is kept elsewhere, in memory or at a client, needs the mark: the log may have been set back meanwhile,
// and the position may be that of other events. The zero Mark is the start of every log.
type Mark struct {
	Position events.Position
	// Batch is the batch of the event before the position; zero at the start, or if it is not known.
	Batch uuid.UUID
}

// MarkAfter returns the mark after an event.
func MarkAfter(recorded *events.Recorded) Mark {
	return Mark{Position: recorded.End(), Batch: recorded.Metadata.Batch}
}

// String renders a mark for messages.
func (m Mark) String() string { return fmt.Sprintf("%d (%s)", m.Position, m.Batch) }

// known reports whether the mark can be checked.
func (m Mark) known() bool { return m.Position > 0 && m.Batch != uuid.Nil }

// ErrOtherLog means that the log does not have an event that was read before: it was set back, for instance by a
// failover that lost events or by a restore, or it is another log.
var ErrOtherLog = errors.New("the log does not have what was read before: it was set back, or is another one")

// HasMarkSQL returns an expression that tells whether the log has a mark. position and batch are expressions. A
// transaction that stores what was computed from events must check the mark of their end in its own database: only then
// these events are in the log there. It is an index probe.
func HasMarkSQL(position, batch string) string {
	return fmt.Sprintf(`(%[1]s = 0 OR EXISTS (
    SELECT FROM events AS marked WHERE marked.log_index = %[1]s - 1 AND marked.batch_id = %[2]s))`, position, batch)
}

const endSQL = `SELECT log_index + 1, batch_id FROM events ORDER BY log_index DESC LIMIT 1`

// End returns the mark of the end of the log.
func End(ctx context.Context, q database.Querier) (Mark, error) {
	var end Mark
	err := q.QueryRow(ctx, endSQL).Scan(&end.Position, &end.Batch)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return Mark{}, fmt.Errorf("find the end of the log: %w", err)
	}
	return end, nil
}
