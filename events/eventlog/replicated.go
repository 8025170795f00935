package eventlog

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// replicatedSQL writes a mark into the write-ahead log where a commit waits for a synchronous standby. Its own commit
// waits for all that stands before it there.
const replicatedSQL = `SELECT pg_logical_emit_message(true, 'novelgate', '') WHERE current_setting('synchronous_standby_names') <> ''`

// AwaitReplicated returns when whatever a connection has read outlives a failover to a synchronous standby. Without one
// it returns at once.
//
// A commit that waits for the standby becomes visible when its wait is cancelled, as it is when the time for a command
// is up. What was read may therefore be on the primary only, and must not be acknowledged or signed yet. The connection
// must not be in a transaction.
func AwaitReplicated(ctx context.Context, conn interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
},
) error {
	if _, err := conn.Exec(ctx, replicatedSQL); err != nil {
		return fmt.Errorf("wait for the synchronous standby: %w", err)
	}
	return nil
}

// QueueReplicated makes a batch end, without an error, only when what the statements in front of it have read outlives
// such a failover. The batch is its own transaction, which may be read-only.
func QueueReplicated(batch *pgx.Batch) { batch.Queue(replicatedSQL) }
