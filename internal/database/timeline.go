package database

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// ErrOldPrimary refuses a server of a cluster that has been promoted since. What it stores is lost.
var ErrOldPrimary = errors.New("the database server is an old primary: another server of its cluster was promoted, " +
	"and this process has used that one; if this one was restored on purpose, start the service again")

// timelines are the newest timelines that a process has met, by cluster. Each promotion begins a timeline.
//
// With several hosts in its URL a pool connects to whichever can be written. When a primary that was replaced starts
// again, some connections would lead to it and others to the new one.
type timelines struct {
	mu     sync.Mutex
	newest map[string]string // of eight hexadecimal digits, by system identifier
}

// TimelineSQL is an expression for the timeline that a server writes, in eight hexadecimal digits. It fails on a
// standby.
const TimelineSQL = `pg_catalog.substr(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 1, 8)`

// timelineSQL is empty for a standby, which is refused elsewhere.
const timelineSQL = `SELECT c.system_identifier, CASE WHEN pg_catalog.pg_is_in_recovery() THEN '' ELSE ` + TimelineSQL + ` END
FROM pg_catalog.pg_control_system() AS c`

// guard makes connections fail with ErrOldPrimary, so that the next host is tried.
func (t *timelines) guard(config *pgx.ConnConfig) {
	validate := config.ValidateConnect
	config.ValidateConnect = func(ctx context.Context, session *pgconn.PgConn) error {
		if validate != nil {
			if err := validate(ctx, session); err != nil {
				return err
			}
		}
		return t.check(ctx, session)
	}
}

func (t *timelines) check(ctx context.Context, session *pgconn.PgConn) error {
	results, err := session.Exec(ctx, timelineSQL).ReadAll()
	if err != nil {
		return fmt.Errorf("read the timeline: %w", err)
	}
	system, timeline := string(results[0].Rows[0][0]), string(results[0].Rows[0][1])
	t.mu.Lock()
	defer t.mu.Unlock()
	switch newest := t.newest[system]; {
	case timeline == "", timeline == newest:
	case timeline < newest:
		return ErrOldPrimary
	default:
		t.newest[system] = timeline
	}
	return nil
}
