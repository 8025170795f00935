package eventlog

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/internal/database"
)

// Identity identifies the log that a position belongs to. Under another identity, an equal position may be that of
// another event: after a failover to a standby that lagged, transaction ids are assigned again. Code that keeps a
// position or events in memory keeps their identity too, and writes only under the identity under which it read.
type Identity struct {
	System   uint64    // of the cluster and all its physical copies
	Timeline uint32    // changes with each promotion and point-in-time restore
	Log      uuid.UUID // of the table events and all its dumps
	// Started is the start time of the server, in microseconds since 1970. It changes when the data directory is set back
	// to a snapshot, which keeps all other fields.
	Started int64
	// Table is the OIDs of the database and of its table events. They change when a dump is restored into the same
	// cluster, and when another database takes the name.
	Table string
}

// IdentitySQL is an expression for the identity of the log, which Identity scans. As part of a statement, it identifies
// the log that this statement reads. It costs 10 µs.
const IdentitySQL = `(SELECT concat_ws(' ', c.system_identifier,
    CASE WHEN pg_is_in_recovery() THEN lpad(upper(to_hex((SELECT timeline_id FROM pg_control_checkpoint()))), 8, '0')
         ELSE ` + database.TimelineSQL + ` END,
    l.id, (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint,
    (SELECT concat(d.oid, '/', 'events'::regclass::oid) FROM pg_database AS d WHERE d.datname = current_database()))
FROM pg_control_system() AS c, log_identity AS l)`

// ErrOtherLog means that a connection leads to another log, or that the server was restarted or the table replaced:
// data that was read before may not be in this log.
var ErrOtherLog = errors.New("the log is not the one that was read before: the server was restarted, " +
	"or the database is another one")

var errNotIdentity = errors.New("not an identity of a log")

// Scan implements sql.Scanner.
func (i *Identity) Scan(src any) error {
	text, ok := src.(string)
	if !ok {
		return fmt.Errorf("%w: %T", errNotIdentity, src)
	}
	var log string
	if _, err := fmt.Sscanf(text, "%d %x %s %d %s", &i.System, &i.Timeline, &log, &i.Started, &i.Table); err != nil {
		return fmt.Errorf("%w: %q: %w", errNotIdentity, text, err)
	}
	id, err := uuid.Parse(log)
	if err != nil {
		return fmt.Errorf("%w: %q: %w", errNotIdentity, text, err)
	}
	i.Log = id
	return nil
}

// String returns the text of IdentitySQL.
func (i Identity) String() string {
	return fmt.Sprintf("%d %08X %s %d %s", i.System, i.Timeline, i.Log, i.Started, i.Table)
}

// Identify returns the identity of the log that q reads.
func Identify(ctx context.Context, q database.Querier) (Identity, error) {
	var identity Identity
	if err := q.QueryRow(ctx, `SELECT `+IdentitySQL).Scan(&identity); err != nil {
		return Identity{}, fmt.Errorf("identify the log: %w", err)
	}
	return identity, nil
}

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
