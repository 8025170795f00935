package database

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// ErrOldPrimary refuses an old primary, after another server of its cluster was promoted. Its writes would be lost.
var ErrOldPrimary = errors.New("the database server is an old primary: another server of its cluster was promoted, " +
	"and this process has used that one; if this one was restored on purpose, start the service again")

// timelines are the newest timelines that a process has seen, by cluster. Each promotion starts a new timeline.
//
// With several hosts in its URL a pool connects to any writable host. When a replaced primary starts again, some
// connections would go to it and others to the new primary.
type timelines struct {
	mu     sync.Mutex
	newest map[string]string // of eight hexadecimal digits, by system identifier
}

// TimelineSQL is an expression for the current timeline of a server, in eight hexadecimal digits. It fails on a
// standby.
const TimelineSQL = `pg_catalog.substr(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 1, 8)`

// timelineSQL returns "" for a standby, which CheckServer refuses.
const timelineSQL = `SELECT c.system_identifier, CASE WHEN pg_catalog.pg_is_in_recovery() THEN '' ELSE ` + TimelineSQL + ` END
FROM pg_catalog.pg_control_system() AS c`

// guard makes connections to an old primary fail with ErrOldPrimary, so that pgx tries the next host.
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
