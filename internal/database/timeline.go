package database

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// ErrOldPrimary refuses an old primary, after another server of its cluster was promoted. Its writes would be lost.
var ErrOldPrimary = errors.New("the database server is an old primary: another server of its cluster was promoted, " +
	"and this process has seen that one; if this one was restored on purpose, take the other one out of the URL, and " +
	"start again")

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

// surveySQL also reads the timeline of a standby, as of its last restart point.
const surveySQL = `SELECT c.system_identifier, CASE WHEN pg_catalog.pg_is_in_recovery()
    THEN pg_catalog.lpad(pg_catalog.upper(pg_catalog.to_hex(p.timeline_id)), 8, '0')
    ELSE pg_catalog.substr(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 1, 8) END
FROM pg_catalog.pg_control_system() AS c, pg_catalog.pg_control_checkpoint() AS p`

// RefuseOldPrimary makes connections with config refuse a server that is older than another one of its URL. With a
// single host it does nothing. Hosts that do not answer in time are not known.
func RefuseOldPrimary(ctx context.Context, config *pgxpool.Config) {
	seen := &timelines{newest: map[string]string{}}
	if seen.survey(ctx, config) {
		seen.guard(config)
	}
}

// surveyTimeout limits the wait for all hosts, so that one that is down does not delay every command for long.
const surveyTimeout = 3 * time.Second

// survey notes the timelines of all hosts of a URL. It reports whether there are several.
func (t *timelines) survey(ctx context.Context, config *pgxpool.Config) bool {
	type host struct {
		name string
		port uint16
	}
	found := map[host]*pgx.ConnConfig{}
	one := config.ConnConfig
	for _, at := range append([]*pgconn.FallbackConfig{{Host: one.Host, Port: one.Port, TLSConfig: one.TLSConfig}},
		one.Fallbacks...) {
		key := host{at.Host, at.Port}
		if c := found[key]; c != nil { // for instance without TLS
			c.Fallbacks = append(c.Fallbacks, at)
			continue
		}
		c := one.Copy()
		c.Host, c.Port, c.TLSConfig, c.Fallbacks, c.ValidateConnect = at.Host, at.Port, at.TLSConfig, nil, nil
		found[key] = c
	}
	if len(found) == 1 {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, surveyTimeout)
	defer cancel()
	var asked sync.WaitGroup
	for _, c := range found {
		asked.Go(func() {
			conn, err := pgx.ConnectConfig(ctx, c)
			if err != nil {
				return
			}
			defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // there is nothing to lose
			if s, err := ask(ctx, conn.PgConn(), surveySQL); err == nil {
				t.note(s)
			}
		})
	}
	asked.Wait()
	return true
}

// ask reads the fields of server.
func ask(ctx context.Context, session *pgconn.PgConn, sql string) (server, error) {
	results, err := session.Exec(ctx, sql).ReadAll()
	if err != nil {
		return server{}, fmt.Errorf("read the timeline: %w", err)
	}
	row := results[0].Rows[0]
	return server{string(row[0]), string(row[1])}, nil
}

func (t *timelines) note(s server) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.newest[s.system] = max(t.newest[s.system], s.timeline)
}

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
	connected, err := ask(ctx, session, timelineSQL)
	if err != nil {
		return err
	}
	session.CustomData()[serverKey] = connected
	if t.replaced(connected) {
		return ErrOldPrimary
	}
	t.note(connected)
	return nil
}

// replaced reports whether this process has seen a newer timeline of the cluster: another server was promoted.
func (t *timelines) replaced(s server) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return s.timeline != "" && s.timeline < t.newest[s.system]
}
