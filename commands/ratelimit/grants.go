package ratelimit

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"novelgate/internal/database"
)

var (
	//go:embed read.sql
	readSQL string
	//go:embed grant.sql
	grantSQL string
	//go:embed take.sql
	takeSQL string
)

// Grants are the permits that one transaction grants. The transaction first locks out all other grants of the windows;
// then it reads them, grants, and stores what it has granted. Create it with NewGrants.
type Grants struct {
	limiter *Limiter
	windows map[Key]*window
}

// window is a window as a transaction has read it, with its grants.
type window struct {
	limit   int
	now     float64  // seconds since 1970 on the clock of the database
	seconds []second // with permits that count, oldest first, with those granted
	used    int      // permits that count, with those granted
	granted int
	isFirst bool // these are the first grants of their second
	// isPartial: only the sum of the permits that were granted before is known, not their seconds.
	isPartial bool
}

type second struct {
	at      int64
	permits int
}

// counts is how long a permit counts after the beginning of its second.
const counts = int64(Window/time.Second) + 1

// NewGrants returns Grants without windows.
func (l *Limiter) NewGrants() *Grants { return &Grants{limiter: l, windows: map[Key]*window{}} }

// Want adds a window with its limit.
func (g *Grants) Want(k Key, limit int) { g.windows[k] = &window{limit: min(limit, math.MaxInt32)} }

// QueueRead queues the statement that reads the windows.
func (g *Grants) QueueRead(batch *pgx.Batch) {
	if len(g.windows) == 0 {
		return
	}
	var integrations []uuid.UUID
	var operations []string
	var windows []*window
	for k, w := range g.windows {
		integrations, operations = append(integrations, k.Integration), append(operations, string(k.Operation))
		windows = append(windows, w)
	}
	batch.Queue(readSQL, integrations, operations).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var n int
			var now float64
			var seconds []int64
			var permits []int32
			if err := rows.Scan(&n, &now, &seconds, &permits); err != nil {
				return fmt.Errorf("scan permits: %w", err)
			}
			w := windows[n-1]
			w.now = now
			for i, at := range seconds {
				w.seconds, w.used = append(w.seconds, second{at, int(permits[i])}), w.used+int(permits[i])
			}
		}
		return rows.Err()
	})
}

// cleanSQL deletes what no longer counts in a window.
const cleanSQL = `DELETE FROM rate_limits WHERE integration_id = $1 AND operation = $2
AND second NOT BETWEEN extract(epoch FROM clock_timestamp())::bigint - 62 AND extract(epoch FROM clock_timestamp())::bigint + 61`

// QueueTake queues the statement that grants numbers of permits, all or none, without an earlier read. If one of the
// windows has too few permits, the transaction fails.
func (g *Grants) QueueTake(batch *pgx.Batch, numbers map[Key]int) {
	if len(numbers) == 0 {
		return
	}
	var integrations []uuid.UUID
	var operations []string
	var permits, limits []int32
	for k, n := range numbers {
		integrations, operations = append(integrations, k.Integration), append(operations, string(k.Operation))
		permits, limits = append(permits, int32(n)), append(limits, int32(g.windows[k].limit)) //nolint:gosec // at most the limit
		if g.limiter.isDirty(k) {
			batch.Queue(cleanSQL, k.Integration, string(k.Operation))
		}
	}
	batch.Queue(takeSQL, integrations, operations, permits, limits).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var integration pgtype.UUID
			var operation pgtype.Text
			var at, used pgtype.Int8
			if err := rows.Scan(&integration, &operation, &at, &used, nil); err != nil {
				return fmt.Errorf("scan granted permits: %w", err)
			}
			k := Key{Integration: integration.Bytes, Operation: Operation(operation.String)}
			if w := g.windows[k]; w != nil {
				w.now, w.used, w.isPartial = float64(at.Int64), int(used.Int64), true
				w.grant(numbers[k])
			}
		}
		return rows.Err()
	})
}

// Take grants up to n permits, as many as are free.
func (g *Grants) Take(k Key, n int) Decision {
	w := g.windows[k]
	granted := max(0, min(n, w.limit-w.used))
	w.grant(granted)
	d := Decision{Granted: granted, Limit: w.limit, Remaining: max(0, w.limit-w.used)}
	if granted < n {
		d.RetryAfter = w.until(w.used - w.limit + 1)
	}
	return d
}

func (w *window) grant(n int) {
	if n == 0 {
		return
	}
	at := int64(w.now)
	i, found := slices.BinarySearchFunc(w.seconds, at, func(s second, at int64) int { return cmp.Compare(s.at, at) })
	if !found {
		w.seconds, w.isFirst = slices.Insert(w.seconds, i, second{at: at}), true
	}
	w.seconds[i].permits += n
	w.used += n
	w.granted += n
}

// until returns the time until n of the used permits no longer count; at most until none counts.
func (w *window) until(n int) time.Duration {
	if w.limit <= 0 {
		return Window
	}
	end := w.now
	for _, s := range w.seconds {
		if s.permits > 0 {
			end = float64(s.at + counts)
		}
		if n -= s.permits; n <= 0 {
			break
		}
	}
	return time.Duration(math.Ceil((end - w.now) * float64(time.Second)))
}

// QueueStore queues the statement that stores the granted permits, and returns it; nil if there are none. The statement
// returns the second of each grant.
func (g *Grants) QueueStore(batch *pgx.Batch) *pgx.QueuedQuery {
	var integrations []uuid.UUID
	var operations []string
	var numbers []int32
	var isFirst []bool
	for k, w := range g.windows {
		if w.granted == 0 {
			continue
		}
		integrations, operations = append(integrations, k.Integration), append(operations, string(k.Operation))
		numbers = append(numbers, int32(w.granted)) //nolint:gosec // at most the limit
		isFirst = append(isFirst, w.isFirst)
	}
	if len(numbers) == 0 {
		return nil
	}
	return batch.Queue(grantSQL, integrations, operations, numbers, isFirst)
}

// Committed makes the Limiter remember the windows, once the transaction has committed, or has ended without grants.
func (g *Grants) Committed() { g.limiter.remember(g) }

// lockWindowSQL orders the grants of a window that are not made under the lock of the log.
const lockWindowSQL = `SELECT pg_advisory_xact_lock(hashtextextended($1::text || ' ' || $2, 0))`

// Take takes up to n permits of a window in a transaction of its own, as many as are free. It is for operations that
// are not granted together with commands.
func (l *Limiter) Take(ctx context.Context, db database.Beginner, k Key, limit, n int) (d Decision, err error) {
	if limit <= 0 {
		return Decision{RetryAfter: Window}, nil
	}
	grants := l.NewGrants()
	grants.Want(k, limit)
	err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		var read, store pgx.Batch
		read.Queue(lockWindowSQL, k.Integration, string(k.Operation))
		grants.QueueRead(&read)
		if err := tx.SendBatch(ctx, &read).Close(); err != nil {
			return err
		}
		d = grants.Take(k, n)
		stored := grants.QueueStore(&store)
		if stored == nil {
			return nil
		}
		stored.QueryRow(func(row pgx.Row) error { return row.Scan(&d.second) })
		return tx.SendBatch(ctx, &store).Close()
	})
	if err != nil {
		return Decision{}, fmt.Errorf("take %s permits: %w", k.Operation, err)
	}
	grants.Committed()
	return d, nil
}

// returnSQL returns permits. $3: second in which they were granted; $4: their number.
const returnSQL = `UPDATE rate_limits SET permits = permits - $4 WHERE integration_id = $1 AND operation = $2 AND second = $3`

// Return returns n unused permits that Take has granted. On an error they stay taken until their minute ends.
func (l *Limiter) Return(ctx context.Context, db database.Execer, k Key, taken Decision, n int) error {
	n = min(n, taken.Granted)
	if n <= 0 {
		return nil
	}
	if _, err := db.Exec(ctx, returnSQL, k.Integration, string(k.Operation), taken.second, n); err != nil {
		return fmt.Errorf("return %s permits: %w", k.Operation, err)
	}
	l.returned(k, n)
	return nil
}
