package database

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Status is the result of a check.
type Status string

// From harmless to unusable.
const (
	OK   Status = "ok"
	Warn Status = "warn"
	Fail Status = "fail"
)

// Finding is the result of one check of a database.
type Finding struct {
	Check  string `json:"check"`
	Status Status `json:"status"`
	Found  string `json:"found"`
	Advice string `json:"advice,omitempty"` // what to do, and why; empty if all is well
}

// finding returns OK with the found value, or if wrong, another status with advice.
func finding(check, found string, wrong bool, status Status, advice string) Finding {
	if !wrong {
		return Finding{Check: check, Status: OK, Found: found}
	}
	return Finding{Check: check, Status: status, Found: found, Advice: advice}
}

// refusal returns the finding of a check that the service makes at its start.
func refusal(check, found string, err error) Finding {
	if err != nil {
		return Finding{Check: check, Status: Fail, Found: err.Error(), Advice: "mend it first: the service refuses to start"}
	}
	return Finding{Check: check, Status: OK, Found: found}
}

// connectionsSQL returns the version of the server, and how many connections it has, and can have for this role.
const connectionsSQL = `SELECT current_setting('server_version'),
       (SELECT count(*) FROM pg_stat_activity WHERE datid IS NOT NULL) - 1,
       least(current_setting('max_connections')::int - CASE WHEN r.rolsuper THEN 0 ELSE
                 current_setting('superuser_reserved_connections')::int
                 + coalesce(current_setting('reserved_connections', true)::int, 0) END,
             CASE WHEN NOT r.rolsuper THEN nullif(d.datconnlimit, -1) END,
             CASE WHEN NOT r.rolsuper THEN nullif(r.rolconnlimit, -1) END)
FROM pg_roles AS r, pg_database AS d WHERE r.rolname = session_user AND d.datname = current_database()`

// Diagnose checks the server, the database and the role of a pool that OpenGeneral returned: what the service checks
// at its start, rights that it needs later, synchronous standbys, the connections for one more replica, and the clock.
// It changes nothing.
func Diagnose(ctx context.Context, pool *pgxpool.Pool, now func() time.Time) []Finding {
	var version string
	var used, most int64
	if err := pool.QueryRow(ctx, connectionsSQL).Scan(&version, &used, &most); err != nil {
		advice := "name a server that answers, and a role that may connect"
		if _, full := FullServer(err); full {
			advice = FullAdvice
		}
		return []Finding{{Check: "connect", Status: Fail, Found: ErrorText(err), Advice: advice}}
	}
	found := []Finding{
		diagnoseServer(ctx, pool, version),
		diagnoseRights(ctx, pool),
		refusal("sessions", "each connection has a session", CheckSessions(ctx, pool)),
		finding("connections", fmt.Sprintf("%d of %d are used", used, most), used+Connections > most, Warn,
			"for one more replica, as a rollout starts: "+FullAdvice),
		diagnoseClock(ctx, pool, now),
	}
	return append(found, diagnoseStandbys(ctx, pool)...)
}

// rightsSQL returns the role, the owners of the tables whose rights it lacks, what it may create, and the functions
// that it may not call, of those that the server has. A rebuild creates a schema, and moves tables that the role owns
// to schema public.
const rightsSQL = `SELECT current_user::text, (SELECT coalesce(string_agg(r.rolname, ', '), '')
        FROM pg_roles AS r WHERE NOT pg_has_role(r.oid, 'USAGE') AND r.oid IN (
            SELECT relowner FROM pg_class
            WHERE oid IN (to_regclass('public.events'), to_regclass('public.goose_db_version'))
            UNION ALL SELECT nspowner FROM pg_namespace WHERE nspname = 'analytics')),
    has_schema_privilege('public', 'CREATE'), has_database_privilege(current_database(), 'CREATE'),
    (SELECT coalesce(string_agg(f::text, ', '), '') FROM unnest(ARRAY[to_regprocedure('pg_control_system()'),
        to_regprocedure('pg_notify(text,text)'), to_regprocedure('pg_advisory_xact_lock(bigint)'),
        to_regprocedure('pg_try_advisory_lock(bigint)'), to_regprocedure('pg_terminate_backend(integer,bigint)'),
        to_regprocedure('pg_logical_emit_message(boolean,text,text)'), -- until PostgreSQL 16
        to_regprocedure('pg_logical_emit_message(boolean,text,text,boolean)')]) AS f WHERE NOT has_function_privilege(f, 'EXECUTE'))`

// diagnoseRights makes the checks of CheckSchema, and checks the rights that a service needs after its start.
func diagnoseRights(ctx context.Context, pool *pgxpool.Pool) Finding {
	const check = "rights"
	if err := CheckSchema(ctx, pool); err != nil {
		return refusal(check, "", err)
	}
	var role, owners, functions string
	var mayMakeTables, mayMakeSchemas bool
	err := pool.QueryRow(ctx, rightsSQL).Scan(&role, &owners, &mayMakeTables, &mayMakeSchemas, &functions)
	role = pgx.Identifier{role}.Sanitize()
	found, advice := "the role may do what the service does", ""
	switch {
	case err != nil:
		found, advice = ErrorText(err), "see connect"
	case owners != "":
		found = fmt.Sprintf("the role %s does not own the tables, but %s", role, owners)
		advice = "let the service run as the owner, or `GRANT " + owners + " TO " + role + "`: it writes, rebuilds and migrates"
	case !mayMakeTables:
		found = fmt.Sprintf("the role %s may not create tables in schema public", role)
		advice = "`GRANT CREATE ON SCHEMA public TO " + role + "`: rebuilds and migrations create tables"
	case !mayMakeSchemas:
		found = fmt.Sprintf("the role %s may not create schemas in the database", role)
		advice = "`GRANT CREATE ON DATABASE … TO " + role + "`: a rebuild creates one"
	case functions != "":
		found = fmt.Sprintf("the role %s may not call %s", role, functions)
		advice = "`GRANT EXECUTE ON FUNCTION … TO " + role + "`"
	}
	return finding(check, found, advice != "", Fail, advice)
}

// standbysSQL returns the setting, how many synchronous standbys it demands, how many are connected, and of how many
// standbys this role cannot see the state. A standby has none to wait for.
const standbysSQL = `SELECT names, coalesce(substring(names FROM '(?i)^\s*(?:first\s+|any\s+)?(\d+)\s*\(')::integer, 1),
    (SELECT count(*) FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')),
    (SELECT count(*) FROM pg_stat_replication WHERE sync_state IS NULL)
FROM current_setting('synchronous_standby_names') AS names WHERE names <> '' AND NOT pg_is_in_recovery()`

// diagnoseStandbys checks that the synchronous standbys are there for which commits wait, if commits wait for any.
func diagnoseStandbys(ctx context.Context, pool *pgxpool.Pool) []Finding {
	var names string
	var demanded, connected, hidden int
	err := pool.QueryRow(ctx, standbysSQL).Scan(&names, &demanded, &connected, &hidden)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err != nil:
		return []Finding{{Check: "standby", Status: Fail, Found: ErrorText(err), Advice: "see connect"}}
	}
	found := fmt.Sprintf("synchronous_standby_names is %s: %d of %d connected", names, connected, demanded)
	if hidden > 0 && connected < demanded {
		found = fmt.Sprintf("synchronous_standby_names is %s: only a member of pg_monitor sees which are connected", names)
	}
	return []Finding{finding("standby", found, connected+hidden < demanded, Fail,
		"start the standby, or take it out of synchronous_standby_names: all commits wait for it")}
}

// diagnoseServer makes the checks of CheckServer. The service starts on a standby, for readers.
func diagnoseServer(ctx context.Context, pool *pgxpool.Pool, version string) Finding {
	err := CheckServer(ctx, pool, false)
	if errors.Is(err, ErrStandby) {
		return finding("server", "PostgreSQL "+version+", a standby", true, Warn,
			"name the primary for a full service: on a standby it serves readers only")
	}
	return refusal("server", "PostgreSQL "+version+", a primary, UTF8, durable", err)
}

// diagnoseClock compares the clock of the server with the one of this machine.
func diagnoseClock(ctx context.Context, pool *pgxpool.Pool, now func() time.Time) Finding {
	const (
		check     = "clock"
		clockWarn = 2 * time.Second  // difference that shows in timestamps, limits and log messages
		clockFail = 60 * time.Second // a fifth of the five minutes that a comment's timestamp may be ahead
	)
	var there time.Time
	before := now()
	if err := pool.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&there); err != nil {
		return Finding{Check: check, Status: Fail, Found: err.Error(), Advice: "see connect"}
	}
	took := now().Sub(before)
	ahead, direction := there.Sub(before.Add(took/2)), "ahead"
	if ahead < 0 {
		direction = "behind"
	}
	apart := ahead.Abs().Round(time.Millisecond)
	if apart > time.Second {
		apart = apart.Round(time.Second)
	}
	status := Warn
	if apart > clockFail {
		status = Fail
	}
	return finding(check, fmt.Sprintf("the server's is %v %s", apart, direction), apart > clockWarn+took/2, status,
		"let both machines keep time by NTP: comments are accepted by this clock, and recorded and limited by the server's")
}
