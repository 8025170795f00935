package database

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
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

// timelineSQL reads the fields of server. The timeline of a standby is "", so that timelines ignores it; CheckServer
// reports it.
const timelineSQL = `SELECT c.system_identifier, CASE WHEN pg_catalog.pg_is_in_recovery() THEN ''
    ELSE pg_catalog.substr(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 1, 8) END
FROM pg_catalog.pg_control_system() AS c`

// server is a database server on one timeline.
type server struct{ system, timeline string }

const serverKey = "novelgate server"

// guard refuses old primaries. A new connection to one fails with ErrOldPrimary, so that pgx tries the next host. An
// open connection to one is closed before the pool hands it out: an old primary may live on beside a promoted standby.
func (t *timelines) guard(config *pgxpool.Config) {
	config.PrepareConn = func(_ context.Context, conn *pgx.Conn) (bool, error) {
		connected, _ := conn.PgConn().CustomData()[serverKey].(server)
		return !t.replaced(connected), nil
	}
	validate := config.ConnConfig.ValidateConnect
	config.ConnConfig.ValidateConnect = func(ctx context.Context, session *pgconn.PgConn) error {
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
	row := results[0].Rows[0]
	connected := server{string(row[0]), string(row[1])}
	session.CustomData()[serverKey] = connected
	if t.replaced(connected) {
		return ErrOldPrimary
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.newest[connected.system] = max(t.newest[connected.system], connected.timeline)
	return nil
}

// replaced reports whether this process has seen a newer timeline of the cluster: another server was promoted.
func (t *timelines) replaced(s server) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return s.timeline != "" && s.timeline < t.newest[s.system]
}
