package database

import (
	"context"
	"errors"
	"fmt"
	"time"

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
		return Finding{Check: check, Status: Fail, Found: err.Error(), Advice: "the service refuses to start"}
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
// at its start, the connections for one more replica, and the clock. It changes nothing.
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
	return []Finding{
		diagnoseServer(ctx, pool, version),
		refusal("rights", "the role may create what migrations create", CheckSchema(ctx, pool)),
		refusal("sessions", "each connection has a session", CheckSessions(ctx, pool)),
		finding("connections", fmt.Sprintf("%d of %d are used", used, most), used+Connections > most, Warn,
			"one more replica, as a rollout starts, may find none: "+FullAdvice),
		diagnoseClock(ctx, pool, now),
	}
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
