package database

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// sessionSettings apply to every session and override the settings of the server, the database, the role and the URL.
// They fix name resolution, text and time formats, transaction isolation and time-outs. They do not set whether a
// session is read-only, because an operator may have made it so.
var sessionSettings = map[string]string{
	"search_path":                         "public",
	"client_encoding":                     "UTF8",
	"timezone":                            "UTC",
	"datestyle":                           "ISO, MDY",
	"intervalstyle":                       "postgres",
	"extra_float_digits":                  "1",
	"standard_conforming_strings":         "on",
	"quote_all_identifiers":               "off", // a rebuild reads the definitions of indexes
	"default_transaction_isolation":       "read committed",
	"default_transaction_deferrable":      "off",
	"lock_timeout":                        "0",
	"statement_timeout":                   "0",
	"transaction_timeout":                 "0",
	"idle_session_timeout":                "0",
	"idle_in_transaction_session_timeout": "0",
	// The server probes as this process does, see keepAlive. Otherwise the sessions of a vanished replica would last for
	// hours, with their locks.
	"tcp_keepalives_idle":     "10s",
	"tcp_keepalives_interval": "5s",
	"tcp_keepalives_count":    "2",
}

// durableSQL is the synchronous_commit of every session: the operator's value, but "on" instead of "off" or "local". So
// an acknowledged command survives a crash, and a failover to a synchronous standby, even if a lower value is set for
// the role or the database while the service runs. "remote_write" may stay: the commit waits for the local disk, and
// the standby has the WAL unless its machine crashes at the same time.
const durableSQL = `CASE WHEN pg_catalog.current_setting('synchronous_commit') IN ('off', 'local') THEN 'on'
    ELSE pg_catalog.current_setting('synchronous_commit') END`

// ParseConfig returns the configuration for connections to a database. Every connection of the program is made with it,
// or with a copy. A session gets sessionSettings and durableSQL, then settings, and both ends detect a silent peer.
//
// The settings are sent in one round trip after the start of a session, because poolers refuse start-up parameters that
// they do not know.
func ParseConfig(url string, settings map[string]string) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("parse database URL: %w", err)
	}
	conn := config.ConnConfig
	noticeSilence(conn)
	watchConnections(conn)
	all := with(sessionSettings, settings)
	if name, chosen := all[applicationName]; chosen {
		conn.RuntimeParams[applicationName] = name // poolers accept it
		delete(all, applicationName)
	}
	set := setSQL(all)
	conn.AfterConnect = func(ctx context.Context, session *pgconn.PgConn) error {
		// connect_timeout does not cover this step. A server that goes silent now must not keep a place in the pool.
		ctx, cancel := context.WithTimeout(ctx, cmp.Or(conn.ConnectTimeout, connectTimeout))
		defer cancel()
		results, err := session.Exec(ctx, set).ReadAll()
		if err != nil {
			return fmt.Errorf("set up the session: %w", err)
		}
		if w := watchOf(ctx); w != nil {
			process, _ := strconv.ParseInt(string(results[0].Rows[0][1]), 10, 64) // not PID: a pooler has its own numbers
			w.opened(conn, session, process)
		}
		return nil
	}
	closeReadOnly(conn)
	return config, nil
}

const applicationName = "application_name"

// setSQL returns a statement that applies settings and durableSQL to a session. It skips settings that the server does
// not know, because older versions have fewer time-outs.
func setSQL(settings map[string]string) string {
	rows := []string{"('synchronous_commit', " + durableSQL + ")"}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		rows = append(rows, fmt.Sprintf("('%s', '%s')", name, settings[name]))
	}
	return `SELECT pg_catalog.set_config(name, value, false), pg_catalog.pg_backend_pid() FROM (VALUES ` + strings.Join(rows, ", ") + `) AS s(name, value)
WHERE pg_catalog.current_setting(name, true) IS NOT NULL`
}

// readOnlyTransaction is the SQLSTATE of a write in a read-only session.
const readOnlyTransaction = "25006"

// closeReadOnly closes a session after a write failed because it is read-only. A new session may be on another server,
// or start after the operator made the database writable again.
func closeReadOnly(config *pgx.ConnConfig) {
	handle := config.OnPgError
	config.OnPgError = func(session *pgconn.PgConn, refused *pgconn.PgError) bool {
		return handle(session, refused) && refused.Code != readOnlyTransaction
	}
}
