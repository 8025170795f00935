package mirror

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/events/ledger"
	"novelgate/internal/database"
)

// Errors about the database of a mirror.
var (
	// ErrInUse is returned for a database that already has its own events or ledger.
	ErrInUse = errors.New("the database has a log of its own; a mirror needs an empty one")
	// ErrMirror is returned for the database of a mirror.
	ErrMirror   = errors.New("the database is a mirror")
	errNoMirror = errors.New("the database is not a mirror any more")
	errMoved    = errors.New("the mirror has applied more events meanwhile; try again")
)

const (
	lockLogSQL = `LOCK TABLE events, ledger_origins IN SHARE ROW EXCLUSIVE MODE`
	// beginSQL makes an empty database a mirror. $1: URL of the origin.
	beginSQL = `INSERT INTO mirror (origin_url, tree_size, edge, started_at, applied_at)
SELECT $1, 0, '', statement_timestamp(), statement_timestamp()
WHERE NOT EXISTS (SELECT FROM events) AND NOT EXISTS (SELECT FROM ledger_origins) AND NOT EXISTS (SELECT FROM mirror)`
	setURLSQL = `UPDATE mirror SET origin_url = $1 WHERE origin_url <> $1`
	originSQL = `SELECT origin_url FROM mirror`
	edgeSQL   = `SELECT tree_size, edge FROM mirror`
	// lockEdgeSQL returns no row if another transaction holds the lock.
	lockEdgeSQL = edgeSQL + ` FOR NO KEY UPDATE SKIP LOCKED`
	// allowWritesSQL lets the transaction append and erase. Without it, the trigger that closeSQL enables refuses both.
	allowWritesSQL = `SELECT set_config('novelgate.mirror', 'on', true)`
	saveEdgeSQL    = `UPDATE mirror SET tree_size = $1, edge = $2, applied_at = statement_timestamp()`
	// saveSeenSQL stores a checkpoint of the origin, unless one with the same name and at least as many entries is stored.
	// It replaces one with another name only if the mirror has adopted the new name: until then its log may not be that
	// of the new name. $1: note; $2: its first line, the name; $3: its second line, the number of entries.
	saveSeenSQL = `UPDATE mirror SET seen = $1
WHERE seen IS NULL OR CASE WHEN split_part(seen, E'\n', 1) = $2 THEN split_part(seen, E'\n', 2)::bigint < $3
    ELSE $2 = (SELECT origin FROM ledger_origins ORDER BY ordinal DESC LIMIT 1) END`
	// saveStopSQL stores why the mirror has stopped. $1: reason, $2: log index; both NULL: the mirror continues.
	saveStopSQL = `UPDATE mirror SET stopped = $1, stopped_at = $2 WHERE (stopped, stopped_at) IS DISTINCT FROM ($1, $2)`
	stateSQL    = `SELECT origin_url, coalesce(seen, ''), coalesce(stopped, ''), coalesce(stopped_at, 0), tree_size, edge FROM mirror`
	endSQL      = `DELETE FROM mirror`
	closeSQL    = `ALTER TABLE events ENABLE ALWAYS TRIGGER events_only_mirrored`
	openSQL     = `ALTER TABLE events DISABLE TRIGGER events_only_mirrored`
)

// Begin makes an empty database the mirror of the service at a URL. In the database of a mirror it only updates the
// URL; verification of the events shows whether the service is the same. It fails with ErrInUse for any other database.
func Begin(ctx context.Context, pool *pgxpool.Pool, originURL string) error {
	origin, err := Origin(ctx, pool)
	if err != nil || origin == originURL {
		return err
	}
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if origin != "" {
			_, err := tx.Exec(ctx, setURLSQL, originURL)
			return err
		}
		if _, err := tx.Exec(ctx, lockLogSQL); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, beginSQL, originURL); err != nil {
			return err
		}
		now, err := Origin(ctx, tx)
		if err != nil {
			return err
		}
		if now == "" {
			return ErrInUse
		}
		_, err = tx.Exec(ctx, closeSQL)
		return err
	})
	if err != nil {
		return fmt.Errorf("begin a mirror: %w", err)
	}
	return nil
}

// Origin returns the public URL of the service that a database mirrors; "" if the database is not a mirror.
func Origin(ctx context.Context, db database.Querier) (url string, err error) {
	err = db.QueryRow(ctx, originSQL).Scan(&url)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return "", fmt.Errorf("read what is mirrored: %w", err)
	}
	return url, nil
}

// State is the durable state of a mirror.
type State struct {
	Origin    string             // public URL
	Edge      *ledger.Edge       // of the tree of the events that were verified and applied
	Seen      *ledger.Checkpoint // newest checkpoint of the origin; nil before the first one
	Stopped   string             // why the mirror has stopped; "" if it has not
	StoppedAt int64              // log index of the first event that is wrong, or not verified
}

// ReadState reads the state of a mirror; nil if the database is not a mirror.
func ReadState(ctx context.Context, db database.Querier) (*State, error) {
	var s State
	var seen string
	var size int64
	var nodes []byte
	err := db.QueryRow(ctx, stateSQL).Scan(&s.Origin, &seen, &s.Stopped, &s.StoppedAt, &size, &nodes)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err == nil && seen != "" {
		var c ledger.Checkpoint
		c, err = ledger.ParseCheckpoint([]byte(seen))
		s.Seen = &c
	}
	if err == nil {
		s.Edge, err = ledger.OpenEdge(size, nodes)
	}
	if err != nil {
		return nil, fmt.Errorf("read the state of the mirror: %w", err)
	}
	return &s, nil
}

// End makes the database of a mirror one that accepts appends, in the transaction of a promotion. It fails if the
// mirror has applied events since expected was read.
func End(ctx context.Context, tx pgx.Tx, expected *State) error {
	found, err := scanEdge(tx.QueryRow(ctx, edgeSQL+` FOR UPDATE`))
	if err != nil {
		return err
	}
	if found.Size() != expected.Edge.Size() || found.Root() != expected.Edge.Root() {
		return errMoved
	}
	if _, err := tx.Exec(ctx, endSQL); err != nil {
		return fmt.Errorf("end the mirror: %w", err)
	}
	if _, err := tx.Exec(ctx, openSQL); err != nil {
		return fmt.Errorf("open the log: %w", err)
	}
	return nil
}

// saveSeen stores the newest checkpoint of the origin, unless the database has a newer one of the same name: another
// replica, or this one before a restart, may have stored it. After a restore, the origin signs under a new name and may
// have fewer entries: see saveSeenSQL. The events that a checkpoint covers may never arrive.
func (m *Mirror) saveSeen(ctx context.Context, c ledger.Checkpoint) error {
	if c.Origin == m.seen.Origin && c.Tree.N <= m.seen.Tree.N {
		return nil
	}
	tag, err := m.config.Pool.Exec(ctx, saveSeenSQL, string(c.Note), c.Origin, c.Tree.N)
	if err != nil {
		return fmt.Errorf("store the checkpoint of the origin: %w", err)
	}
	if tag.RowsAffected() > 0 || c.Origin == m.seen.Origin {
		m.seen = c
	}
	return nil
}

// saveStop stores why the mirror has stopped; nil: it continues.
func (m *Mirror) saveStop(ctx context.Context, stopped *StoppedError) error {
	var reason *string
	var at *int64
	if stopped != nil {
		text := eventlog.ErrorText(stopped.Reason)
		reason, at = &text, &stopped.LogIndex
	}
	if _, err := m.config.Pool.Exec(ctx, saveStopSQL, reason, at); err != nil {
		return fmt.Errorf("store the state of the mirror: %w", err)
	}
	return nil
}

// resume reads the edge of the mirrored tree and the newest checkpoint seen, and sets the stored progress of mirror and
// origin in the status.
func (m *Mirror) resume(ctx context.Context) (*ledger.Edge, error) {
	at, err := ReadState(ctx, m.config.Pool)
	if err == nil && at == nil {
		err = errNoMirror
	}
	if err != nil {
		return nil, err
	}
	if at.Seen != nil {
		m.seen = *at.Seen
	}
	m.changeStatus(func(s *Status) {
		s.Entries = at.Edge.Size()
		if s.OriginEntries == 0 && at.Seen != nil {
			s.OriginEntries = at.Seen.Tree.N
		}
	})
	return at.Edge, nil
}

// clearStop clears the stored reason of a stop, once after each stop and after the start of the process.
func (m *Mirror) clearStop(ctx context.Context) error {
	if m.cleared {
		return nil
	}
	if err := m.saveStop(ctx, nil); err != nil {
		return err
	}
	m.cleared = true
	return nil
}

// load reads the edge of the mirrored tree.
func (m *Mirror) load(ctx context.Context) (*ledger.Edge, error) {
	return scanEdge(m.config.Pool.QueryRow(ctx, edgeSQL))
}

func scanEdge(row pgx.Row) (*ledger.Edge, error) {
	var size int64
	var nodes []byte
	if err := row.Scan(&size, &nodes); err != nil {
		return ledger.NewEdge(), fmt.Errorf("read the edge of the mirrored tree: %w", err)
	}
	return ledger.OpenEdge(size, nodes)
}

// apply appends a batch in one transaction, if the mirrored tree still has the edge on which the batch builds. It
// fails with eventlog.ErrStandby if another replica has locked or moved the edge.
func (m *Mirror) apply(ctx context.Context, edge *ledger.Edge, b *batch) error {
	ctx, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	err := pgx.BeginFunc(ctx, m.config.Pool, func(tx pgx.Tx) error {
		found, err := scanEdge(tx.QueryRow(ctx, lockEdgeSQL))
		if errors.Is(err, pgx.ErrNoRows) || err == nil && (found.Size() != edge.Size() || found.Root() != edge.Root()) {
			return fmt.Errorf("%w: it applies the events of the origin", eventlog.ErrStandby)
		}
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, allowWritesSQL); err != nil {
			return fmt.Errorf("open the log of a mirror: %w", err)
		}
		if err := eventlog.CopyRows(ctx, tx, b.rows); err != nil {
			return err
		}
		var writes pgx.Batch
		if err := m.config.Inline(ctx, &writes, b.recorded); err != nil {
			return err
		}
		writes.Queue(saveEdgeSQL, b.edge.Size(), b.edge.Nodes())
		if err := tx.SendBatch(ctx, &writes).Close(); err != nil {
			return fmt.Errorf("write inline projections: %w", err)
		}
		for i := range b.recorded {
			if _, ok := b.recorded[i].Event.(events.AuthorErased); !ok {
				continue
			}
			if err := m.config.Erase(ctx, tx, &b.recorded[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("apply %d events from log index %d on: %w", len(b.rows), edge.Size(), err)
	}
	if m.config.Wake != nil {
		m.config.Wake.Signal()
	}
	return nil
}
