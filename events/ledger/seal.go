package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/mod/sumdb/tlog"

	"novelgate/events/eventlog"
	"novelgate/internal/database"
)

// sealTimeout limits one seal, in case the database does not answer.
const sealTimeout = time.Minute

var (
	// errOtherSealer means that another replica seals, or has sealed since the state was read.
	errOtherSealer = fmt.Errorf("%w: it seals", eventlog.ErrStandby)
	// errLostRows means that the database stored a different number of rows.
	errLostRows = errors.New("seal stored another number of rows than were sent")
)

// lockStateSQL locks the state, and tells whether it is the tree with size $1 and root $2, and whether the log has the
// position $3 after the batch $4. It returns no row while another session seals. The transaction can be repeated from
// the log and gives the same bytes, so its commit need not wait for the disk.
var lockStateSQL = `SELECT (tree_size, root_hash) = ($1, $2), ` + eventlog.HasMarkSQL("$3::bigint", "$4::uuid") + `,
    set_config('synchronous_commit', 'off', true)
FROM ledger_state FOR NO KEY UPDATE SKIP LOCKED`

const (
	insertTilesSQL = `INSERT INTO ledger_tiles (level, first_node, hashes)
SELECT level, first_node, hashes FROM unnest($1::smallint[], $2::bigint[], $3::bytea[]) AS piece (level, first_node, hashes)`

	// saveStateSQL replaces the tree of size $1 by the one with size $2 and root $3.
	saveStateSQL = `UPDATE ledger_state
SET tree_size = $2, root_hash = $3, sealed_at = statement_timestamp(), error = NULL, error_at = NULL WHERE tree_size = $1`
)

// seal stores a batch in one transaction, and only if the ledger is at the start of the batch and the log has its
// events. It takes two round trips. It fails with errOtherSealer if another session has locked or changed the state,
// and with eventlog.ErrOtherLog if the log does not have the events. After any other error, nothing was stored or the
// outcome of the commit is unknown; then the caller reads the state again.
func seal(ctx context.Context, pool *pgxpool.Pool, b *batch) error {
	ctx, cancel := context.WithTimeout(ctx, sealTimeout)
	defer cancel()
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("acquire connection: %w", err)
	}
	defer database.Release(ctx, conn)
	if err := b.begin(ctx, conn); err != nil {
		return err
	}
	if err := conn.SendBatch(ctx, b.writes()).Close(); err != nil {
		return fmt.Errorf("seal %d events from log index %d on: %w", b.read.Read, b.start.N, err)
	}
	return nil
}

// begin starts the transaction of seal, locks the state and checks it.
func (b *batch) begin(ctx context.Context, conn *pgxpool.Conn) error {
	var isStart, hasEnd bool
	var begin pgx.Batch
	begin.Queue("begin")
	begin.Queue(lockStateSQL, b.start.N, b.start.Hash[:], b.read.End.Position, b.read.End.Batch).QueryRow(
		func(row pgx.Row) error { return row.Scan(&isStart, &hasEnd, nil) })
	err := conn.SendBatch(ctx, &begin).Close()
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return errOtherSealer
	case err != nil:
		return fmt.Errorf("lock the ledger: %w", err)
	case !isStart:
		return errOtherSealer
	case !hasEnd:
		return eventlog.ErrOtherLog
	}
	return nil
}

// writes returns the statements that store the batch, including the commit.
func (b *batch) writes() *pgx.Batch {
	var writes pgx.Batch
	write := func(rows int, sql string, args ...any) {
		writes.Queue(sql, args...).Exec(func(tag pgconn.CommandTag) error {
			if tag.RowsAffected() != int64(rows) {
				return fmt.Errorf("%w: %d instead of %d", errLostRows, tag.RowsAffected(), rows)
			}
			return nil
		})
	}
	tileLevels, nodes, hashes := make([]int16, len(b.pieces)), make([]int64, len(b.pieces)), make([][]byte, len(b.pieces))
	for i, p := range b.pieces {
		tileLevels[i], nodes[i], hashes[i] = int16(p.level), p.first, p.hashes //nolint:gosec // below 8
	}
	write(len(b.pieces), insertTilesSQL, tileLevels, nodes, hashes)
	write(1, saveStateSQL, b.start.N, b.end.N, b.end.Hash[:])
	writes.Queue("commit")
	return &writes
}

// batch is the addition of one seal to the tree, made from events in log order. All but start is set when it is
// complete.
type batch struct {
	start, end tlog.Tree
	read       eventlog.Span // the events
	oldest     time.Time     // recorded_at of the first event
	pieces     []piece       // new pieces of the tree
}
