package eventlog

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/internal/database"
)

// Identity names the log that a position belongs to. Positions of two identities have nothing to do with each other,
// even if they are equal: after a failover to a standby that lagged behind, the same transaction id is another event.
// Code that stores a position or events stores their identity too, and writes only under the identity that it read
// under.
type Identity struct {
	System   uint64    // of the cluster; its physical copies have the same
	Timeline uint32    // changes with each promotion and point-in-time restore
	Log      uuid.UUID // of the table events; dumps of it have the same
	// Started is when the server was started, in microseconds since 1970. It changes when the data directory is set back
	// to a snapshot, which keeps all of the above.
	Started int64
}

// IdentitySQL is an expression for the identity of the log that a statement reads: Identity scans it. It may be part of
// any statement, so that it holds of the connection that answered, and costs 10 µs.
const IdentitySQL = `(SELECT concat_ws(' ', c.system_identifier,
    CASE WHEN pg_is_in_recovery() THEN lpad(upper(to_hex((SELECT timeline_id FROM pg_control_checkpoint()))), 8, '0')
         ELSE ` + database.TimelineSQL + ` END,
    l.id, (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint)
FROM pg_control_system() AS c, log_identity AS l)`

// ErrOtherLog means that the server behind a connection is another one, or was restarted: what is remembered of the log
// may not be in it.
var ErrOtherLog = errors.New("the log is not the one that was read before: the server was restarted or is another one")

var errNotIdentity = errors.New("not an identity of a log")

// Scan implements sql.Scanner.
func (i *Identity) Scan(src any) error {
	text, ok := src.(string)
	if !ok {
		return fmt.Errorf("%w: %T", errNotIdentity, src)
	}
	var log string
	if _, err := fmt.Sscanf(text, "%d %x %s %d", &i.System, &i.Timeline, &log, &i.Started); err != nil {
		return fmt.Errorf("%w: %q: %w", errNotIdentity, text, err)
	}
	id, err := uuid.Parse(log)
	if err != nil {
		return fmt.Errorf("%w: %q: %w", errNotIdentity, text, err)
	}
	i.Log = id
	return nil
}

// String returns what IdentitySQL does.
func (i Identity) String() string {
	return fmt.Sprintf("%d %08X %s %d", i.System, i.Timeline, i.Log, i.Started)
}

// Identify returns the identity of the log that q reads.
func Identify(ctx context.Context, q database.Querier) (Identity, error) {
	var identity Identity
	if err := q.QueryRow(ctx, `SELECT `+IdentitySQL).Scan(&identity); err != nil {
		return Identity{}, fmt.Errorf("identify the log: %w", err)
	}
	return identity, nil
}

// replicatedSQL writes a mark into the write-ahead log where a commit waits for a synchronous standby. Its own commit
// waits for all that stands before it there.
const replicatedSQL = `SELECT pg_logical_emit_message(true, 'novelgate', '') WHERE current_setting('synchronous_standby_names') <> ''`

// AwaitReplicated returns when whatever a connection has read outlives a failover to a synchronous standby. Without one
// it returns at once.
//
// A commit that waits for the standby becomes visible when its wait is cancelled, as it is when the time for a command
// is up. What was read may therefore be on the primary only, and must not be acknowledged or signed yet. The connection
// must not be in a transaction.
func AwaitReplicated(ctx context.Context, conn database.Execer) error {
	if _, err := conn.Exec(ctx, replicatedSQL); err != nil {
		return fmt.Errorf("wait for the synchronous standby: %w", err)
	}
	return nil
}

// QueueReplicated makes a batch end, without an error, only when what the statements in front of it have read outlives
// such a failover. The batch is its own transaction, which may be read-only.
func QueueReplicated(batch *pgx.Batch) { batch.Queue(replicatedSQL) }
