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

// TimelineSQL is an expression for the current timeline of a server, in eight hexadecimal digits. It fails on a
// standby.
const TimelineSQL = `pg_catalog.substr(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 1, 8)`

// serverRunSQL reads the fields of Server. The timeline of a standby is "", so that timelines ignores it; CheckServer
// reports it.
const serverRunSQL = `SELECT c.system_identifier, CASE WHEN pg_catalog.pg_is_in_recovery() THEN '' ELSE ` + TimelineSQL + ` END,
	pg_catalog.pg_postmaster_start_time()
FROM pg_catalog.pg_control_system() AS c`

// Server is one run of a database server, on one timeline. Two connections with equal Servers lead to the same log.
type Server struct{ system, timeline, started string }

const serverKey = "novelgate server"

// ServerOf returns the Server that a connection of Pools leads to; the zero Server for any other connection.
func ServerOf(session *pgconn.PgConn) Server {
	server, _ := session.CustomData()[serverKey].(Server)
	return server
}

// guard refuses old primaries. A new connection to one fails with ErrOldPrimary, so that pgx tries the next host. An
// open connection to one is closed before the pool hands it out: an old primary may live on beside a promoted standby.
func (t *timelines) guard(config *pgxpool.Config) {
	config.PrepareConn = func(_ context.Context, conn *pgx.Conn) (bool, error) {
		return !t.replaced(ServerOf(conn.PgConn())), nil
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
	results, err := session.Exec(ctx, serverRunSQL).ReadAll()
	if err != nil {
		return fmt.Errorf("read the timeline: %w", err)
	}
	row := results[0].Rows[0]
	server := Server{string(row[0]), string(row[1]), string(row[2])}
	session.CustomData()[serverKey] = server
	if t.replaced(server) {
		return ErrOldPrimary
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.newest[server.system] = max(t.newest[server.system], server.timeline)
	return nil
}

// replaced reports whether this process has seen a newer timeline of the cluster: another server was promoted.
func (t *timelines) replaced(server Server) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return server.timeline != "" && server.timeline < t.newest[server.system]
}
