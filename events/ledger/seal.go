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

const insertSealsSQL = `INSERT INTO ledger_seals (transaction_id, first_log_index, event_count)
SELECT transaction_id, first_log_index, event_count
FROM unnest($1::xid8[], $2::bigint[], $3::integer[]) AS seal (transaction_id, first_log_index, event_count)`

const insertTilesSQL = `INSERT INTO ledger_tiles (level, first_node, hashes)
SELECT level, first_node, hashes FROM unnest($1::smallint[], $2::bigint[], $3::bytea[]) AS piece (level, first_node, hashes)`

// seal stores a batch in one transaction, and only if the ledger is at the start of the batch. It takes two round
// trips. It fails with errOtherSealer if another session has locked or changed the state, and with eventlog.ErrOtherLog
// if the log is another one. After any other error, nothing was stored or the outcome of the commit is unknown; then
// the caller reads the state again.
func seal(ctx context.Context, pool *pgxpool.Pool, b *batch) error {
	ctx, cancel := context.WithTimeout(ctx, sealTimeout)
	defer cancel()
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("acquire connection: %w", err)
	}
	defer func() {
		// Release closes the connection if the rollback fails.
		if conn.Conn().PgConn().TxStatus() != 'I' && !conn.Conn().IsClosed() {
			_, _ = conn.Exec(ctx, "rollback")
		}
		conn.Release()
	}()
	if err := beginAt(ctx, conn, b.start); err != nil {
		return err
	}
	if err := conn.SendBatch(ctx, b.writes()).Close(); err != nil {
		return fmt.Errorf("seal %d events after %s: %w", b.events, b.start.position, err)
	}
	return nil
}

// beginAt starts a transaction and locks the state. It fails with errOtherSealer or eventlog.ErrOtherLog unless the
// state is start.
func beginAt(ctx context.Context, conn *pgxpool.Conn, start state) error {
	var begin pgx.Batch
	begin.Queue("begin")
	var found state
	begin.Queue(lockStateSQL).QueryRow(func(row pgx.Row) error {
		var setting string
		var err error
		found, err = scanStateAndLog(row, &setting)
		return err
	})
	err := conn.SendBatch(ctx, &begin).Close()
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return errOtherSealer
	case err != nil:
		return fmt.Errorf("lock the ledger: %w", err)
	case found.log != start.log:
		return eventlog.ErrOtherLog
	case found != start:
		return errOtherSealer
	}
	return nil
}

// writes returns the statements that store a batch, including the commit.
func (b *batch) writes() *pgx.Batch {
	var writes pgx.Batch
	insert := func(rows int, sql string, args ...any) {
		if rows == 0 {
			return
		}
		writes.Queue(sql, args...).Exec(func(tag pgconn.CommandTag) error {
			if tag.RowsAffected() != int64(rows) {
				return fmt.Errorf("%w: %d instead of %d", errLostRows, tag.RowsAffected(), rows)
			}
			return nil
		})
	}
	insert(len(b.transactions), insertSealsSQL, b.transactions, b.firsts, b.counts)
	tileLevels, nodes, hashes := make([]int16, len(b.pieces)), make([]int64, len(b.pieces)), make([][]byte, len(b.pieces))
	for i, p := range b.pieces {
		tileLevels[i], nodes[i], hashes[i] = int16(p.level), p.first, p.hashes //nolint:gosec // below 8
	}
	insert(len(b.pieces), insertTilesSQL, tileLevels, nodes, hashes)
	insert(1, saveStateSQL, b.end.size, b.end.root[:], b.end.position.TransactionID, b.end.position.Ordinal)
	writes.Queue("commit")
	return &writes
}

// ErrGap is returned for a transaction whose events are not numbered 0, 1, 2, …: their log indexes would have gaps.
var ErrGap = errors.New("positions of a transaction have a gap")

// batch is the addition of one seal to the ledger, made from events in log order.
type batch struct {
	start, end state
	events     int
	oldest     time.Time // recorded_at of the first event

	transactions []uint64 // transactions that begin in the batch
	firsts       []int64  // log index of the first event of each
	counts       []int32  // number of events of each

	pieces []piece // new pieces of the tree, once the batch is closed
	entry  []byte  // buffer for the latest entry
}

// add appends an event. The batch does not keep its bytes.
func (b *batch) add(t *tree, e *eventlog.Row) error {
	at := &b.end.position
	switch {
	case e.Position.TransactionID == at.TransactionID && e.Position.Ordinal == at.Ordinal+1:
		if n := len(b.counts); n > 0 {
			b.counts[n-1] = e.Position.Ordinal + 1
		}
	case e.Position.TransactionID > at.TransactionID && e.Position.Ordinal == 0:
		b.transactions = append(b.transactions, e.Position.TransactionID)
		b.firsts = append(b.firsts, t.Size())
		b.counts = append(b.counts, 1)
	default:
		return fmt.Errorf("%w: %s follows %s", ErrGap, e.Position, *at)
	}
	*at = e.Position
	if b.events == 0 {
		b.oldest = e.RecordedAt
	}
	b.events++

	var err error
	if b.entry, err = AppendEntry(b.entry[:0], e); err != nil {
		return fmt.Errorf("event %s: %w", *at, err)
	}
	return t.add(tlog.RecordHash(b.entry))
}

// lastPositionSQL finds the end of a transaction. $1: the transaction.
const lastPositionSQL = `SELECT max(position) FROM events WHERE transaction_id = $1`

// close completes the batch with the new pieces of the tree. A full batch may end within its last transaction. That
// transaction is settled, so the number of its events is known.
func (b *batch) close(ctx context.Context, db database.Querier, t *tree, full bool) error {
	if last := len(b.counts) - 1; full && last >= 0 {
		var end int32
		if err := db.QueryRow(ctx, lastPositionSQL, b.transactions[last]).Scan(&end); err != nil {
			return fmt.Errorf("find the end of transaction %d: %w", b.transactions[last], err)
		}
		b.counts[last] = end + 1
	}
	b.pieces = t.take()
	b.end.size, b.end.root = t.Size(), t.Root()
	return nil
}
