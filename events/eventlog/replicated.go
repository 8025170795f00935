package eventlog

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"novelgate/internal/database"
)

// replicatedSQL writes a message into the write-ahead log. Its commit waits until the synchronous standby has
// everything before the message. The transaction id is never null; on a standby, such as a primary that was demoted, it
// fails with the SQLSTATE of an unavailable database, which the message would not.
const replicatedSQL = `SELECT pg_logical_emit_message(pg_current_xact_id() IS NOT NULL, 'novelgate', '')
WHERE current_setting('synchronous_standby_names') <> ''`

// AwaitReplicated returns when all data that a connection has read survives a failover to a synchronous standby.
// Without one it returns at once.
//
// A commit that waits for the standby becomes visible when its wait is cancelled, for instance by the time-out of a
// command. So data that was read may be on the primary only, and must not be acknowledged or signed yet. The connection
// must not be in a transaction.
func AwaitReplicated(ctx context.Context, conn database.Execer) error {
	if _, err := conn.Exec(ctx, replicatedSQL); err != nil {
		return fmt.Errorf("wait for the synchronous standby: %w", err)
	}
	return nil
}

// QueueReplicated is AwaitReplicated for a batch: the batch ends without an error only if all data that its earlier
// statements have read survives a failover to a synchronous standby. The batch must be a transaction of its own, which
// may be read-only.
func QueueReplicated(batch *pgx.Batch) { batch.Queue(replicatedSQL) }

// ReplicatedSQL is AwaitReplicated as an expression for the select list of a statement that polls. If the statement
// returns a row, its transaction ends without an error only if all data that it has read survives a failover to a
// synchronous standby. Without a row nothing is given out, and nothing waits: PostgreSQL evaluates the subquery for the
// first row. Its value has no meaning. Without a standby it costs 2 µs. The statement, or the batch that it is part of,
// must be a transaction of its own, which may be read-only.
const ReplicatedSQL = `(` + replicatedSQL + `)`
