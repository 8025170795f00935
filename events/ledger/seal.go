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

// sealTimeout bounds one seal: a database that went silent must not hold the sealer for ever.
const sealTimeout = time.Minute

var (
	// errLost means that another replica seals, or has moved the ledger on.
	errLost = fmt.Errorf("%w: it seals", eventlog.ErrStandby)
	// errLostRows means that the database stored another number of rows than were sent.
	errLostRows = errors.New("seal stored another number of rows than were sent")
)

const insertSealsSQL = `INSERT INTO ledger_seals (transaction_id, first_log_index, event_count)
SELECT transaction_id, first_log_index, event_count
FROM unnest($1::xid8[], $2::bigint[], $3::integer[]) AS seal (transaction_id, first_log_index, event_count)`

const insertTilesSQL = `INSERT INTO ledger_tiles (level, first_node, hashes)
SELECT level, first_node, hashes FROM unnest($1::smallint[], $2::bigint[], $3::bytea[]) AS piece (level, first_node, hashes)`

// seal stores a batch in one transaction: all of it or nothing, and only if the ledger is where the batch starts.
// It costs two round trips. It fails with errLost if the ledger is elsewhere, and with eventlog.ErrOtherLog if the
// log is. With any other error nothing was stored, or the outcome of the commit is unknown; the state tells.
func seal(ctx context.Context, pool *pgxpool.Pool, b *batch) error {
	ctx, cancel := context.WithTimeout(ctx, sealTimeout)
	defer cancel()
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("acquire connection: %w", err)
	}
	defer func() {
		// A connection that is still in a transaction is not fit for the pool; Release closes it if this fails.
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

// beginAt starts a transaction that holds the state, which must be this one.
func beginAt(ctx context.Context, conn *pgxpool.Conn, start state) error {
	var begin pgx.Batch
	begin.Queue("begin")
	var found state
	begin.Queue(lockStateSQL).QueryRow(func(row pgx.Row) error {
		var setting string
		var err error
		found, err = scanStateInLog(row, &setting)
		return err
	})
	err := conn.SendBatch(ctx, &begin).Close()
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return errLost
	case err != nil:
		return fmt.Errorf("lock the ledger: %w", err)
	case found.log != start.log:
		return eventlog.ErrOtherLog
	case found != start:
		return errLost
	}
	return nil
}

// writes are the statements that store a batch, the commit included.
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

// batch is what one seal adds to the ledger, made from events in log order. The tree grows on with every batch.
type batch struct {
	start, end state
	events     int
	oldest     time.Time // recorded_at of the first event

	transactions []uint64 // that begin in the batch
	firsts       []int64  // log index of the first event of each
	counts       []int32  // and how many each has

	pieces []piece // of the tree, once the batch is closed
	entry  []byte  // of the latest event
}

// add appends an event, whose bytes the batch does not keep.
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

// close completes the batch with what the tree has grown by. full: the last transaction may go on after it; what is
// settled does not change, so its end is known.
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
