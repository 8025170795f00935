package database

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// minVersion is the oldest PostgreSQL that the service runs on.
const minVersion = 150000

// Reasons to refuse a database at the start. With ErrStandby, `novelgate serve` serves readers only.
var (
	ErrTooOld     = errors.New("the database server is too old: PostgreSQL 15 or newer is needed")
	ErrNotDurable = errors.New("the database may lose acknowledged commands")
	ErrEncoding   = errors.New("the database does not store UTF8")
	ErrStandby    = errors.New("the database server is a standby: connect to the primary")
	ErrReadOnly   = errors.New(
		"the database is read-only: default_transaction_read_only is on for the server, the database or the role")
	ErrPooled = errors.New(
		"a pooler lets connections share sessions of the database server: set it to session mode, or connect directly")
	ErrOtherSchema = errors.New("the tables are not in schema public")
	// ErrOldForm means that the log has the form of an unreleased version.
	ErrOldForm = errors.New("the database was made by an unreleased version, whose log has another form: this version " +
		"does not read or change it; start with an empty database, and keep the history with `novelgate events export` " +
		"of that version")
	ErrNoRight = errors.New("the role of the service lacks a right")
)

// serverSQL reads the synchronous_commit that the server gives to the session, not the one that ParseConfig sets.
const serverSQL = `SELECT current_setting('server_version_num')::int, current_setting('fsync'),
       (SELECT reset_val FROM pg_settings WHERE name = 'synchronous_commit'), current_setting('full_page_writes'),
       current_setting('server_encoding'), pg_is_in_recovery(), current_setting('transaction_read_only') = 'on'`

// schemaSQL returns whether the tables are in schema public, whether one has an unreleased form, in which other schema
// a migration created them, and what the role may create.
const schemaSQL = `SELECT to_regclass('public.events') IS NOT NULL,
       to_regclass('public.events') IS NOT NULL
           AND NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('public.events')
               AND attname = 'log_index' AND NOT attisdropped),
       coalesce((SELECT min(n.nspname) FROM pg_namespace AS n
                 WHERE n.nspname <> 'public' AND EXISTS (SELECT FROM pg_class AS c WHERE c.relnamespace = n.oid
                     AND c.relname = 'events')
                   AND EXISTS (SELECT FROM pg_class AS c WHERE c.relnamespace = n.oid
                       AND c.relname = 'goose_db_version')), ''),
       coalesce(has_schema_privilege(to_regnamespace('public')::oid, 'CREATE'), false),
       has_database_privilege(current_database(), 'CREATE'),
       current_user, current_database()`

// CheckServer refuses a server that is too old (ErrTooOld) or a standby (ErrStandby), a database with another encoding
// than UTF8 (ErrEncoding), a read-only one (ErrReadOnly), and, unless allowUnsafe, settings without durable commits
// (ErrNotDurable). db must not be Pools.Read, whose sessions are always read-only.
func CheckServer(ctx context.Context, db Querier, allowUnsafe bool) error {
	var version int
	var fsync, synchronousCommit, fullPageWrites, encoding string
	var standby, readOnly bool
	err := db.QueryRow(ctx, serverSQL, pgx.QueryExecModeExec).Scan(&version, &fsync, &synchronousCommit, &fullPageWrites,
		&encoding, &standby, &readOnly)
	switch {
	case err != nil:
		return fmt.Errorf("read server settings: %w", err)
	case version < minVersion:
		return fmt.Errorf("%w, this is %d.%d", ErrTooOld, version/10000, version%10000)
	case encoding != "UTF8":
		return fmt.Errorf("%w but %s: use one that was created with ENCODING 'UTF8' TEMPLATE template0", ErrEncoding,
			encoding)
	case standby:
		return ErrStandby
	case readOnly:
		return ErrReadOnly
	case allowUnsafe:
		return nil
	}
	for _, setting := range []struct{ name, value string }{
		{"fsync", fsync}, {"synchronous_commit", synchronousCommit}, {"full_page_writes", fullPageWrites},
	} {
		if setting.value == "off" {
			return fmt.Errorf("%w: %s is off (--allow-unsafe-durability starts all the same)", ErrNotDurable, setting.name)
		}
	}
	return nil
}

// CheckSchema refuses a database with tables in another schema than public, created by a role with its own search_path
// (ErrOtherSchema), tables in an unreleased form (ErrOldForm), and an empty database in which the role may not create
// schemas or tables (ErrNoRight).
func CheckSchema(ctx context.Context, db Querier) error {
	var migrated, oldForm, mayMakeTables, mayMakeSchemas bool
	var elsewhere, role, name string
	if err := db.QueryRow(ctx, schemaSQL).Scan(&migrated, &oldForm, &elsewhere, &mayMakeTables, &mayMakeSchemas, &role,
		&name); err != nil {
		return fmt.Errorf("look for the tables: %w", err)
	}
	quote := func(name string) string { return pgx.Identifier{name}.Sanitize() }
	switch {
	case oldForm:
		return ErrOldForm
	case migrated:
	case elsewhere != "":
		return fmt.Errorf("%w but in %s: stop every replica, and let the owner run `DROP SCHEMA public; ALTER SCHEMA %s "+
			"RENAME TO public`", ErrOtherSchema, quote(elsewhere), quote(elsewhere))
	case !mayMakeTables:
		return fmt.Errorf("%w: `GRANT CREATE ON SCHEMA public TO %s`, or make it the owner of the database", ErrNoRight,
			quote(role))
	case !mayMakeSchemas:
		return fmt.Errorf("%w: `GRANT CREATE ON DATABASE %s TO %s`, or make it the owner of the database", ErrNoRight,
			quote(name), quote(role))
	}
	return nil
}

// CheckSessions refuses a connection pooler that assigns sessions to transactions instead of connections (ErrPooled):
// settings, prepared statements and LISTEN would get lost. It detects this when two connections of pool get the same
// session. Such a pooler gives a transaction the session that became free last. Another connection of this process may
// take that session in between, so CheckSessions compares several times.
func CheckSessions(ctx context.Context, pool *pgxpool.Pool) error {
	const (
		sessionSQL  = `SELECT pg_backend_pid()`
		comparisons = 10
	)
	owners := map[int]int{} // index of the connection by the process id of its session
	err := pool.AcquireFunc(ctx, func(one *pgxpool.Conn) error {
		return pool.AcquireFunc(ctx, func(other *pgxpool.Conn) error {
			for range comparisons {
				for index, conn := range []*pgxpool.Conn{one, other} {
					var session int
					if err := conn.QueryRow(ctx, sessionSQL, pgx.QueryExecModeExec).Scan(&session); err != nil {
						return err
					}
					if owner, known := owners[session]; known && owner != index {
						return ErrPooled
					}
					owners[session] = index
				}
			}
			return nil
		})
	})
	if err != nil && !errors.Is(err, ErrPooled) {
		return fmt.Errorf("look for a pooler: %w", err)
	}
	return err
}
