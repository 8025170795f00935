package database

import (
	"cmp"
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

// Requirements for fast ingest in a growing database.
const (
	leastWAL        = 4 << 30          // bytes
	leastBuffers    = 256 << 20        // bytes
	leastCheckpoint = 900              // seconds
	oldAge          = 1_000_000_000    // transactions; the server stops at two thousand million
	clockWarn       = 2 * time.Second  // difference that shows in timestamps, limits and log messages
	clockFail       = 60 * time.Second // a fifth of the five minutes that a comment's timestamp may be ahead
)

const settingsSQL = `SELECT current_setting('server_version'), current_setting('wal_compression'),
       (SELECT 'lz4' = ANY (enumvals) FROM pg_settings WHERE name = 'wal_compression'),
       pg_size_bytes(current_setting('max_wal_size')), current_setting('max_wal_size'),
       pg_size_bytes(current_setting('shared_buffers')), current_setting('shared_buffers'),
       extract(epoch FROM current_setting('checkpoint_timeout')::interval)::int, current_setting('checkpoint_timeout'),
       (SELECT reset_val FROM pg_settings WHERE name = 'synchronous_commit'),
       current_setting('synchronous_standby_names'),
       current_setting('autovacuum') = 'on' AND current_setting('track_counts') = 'on',
       (SELECT reset_val FROM pg_settings WHERE name = 'jit'), to_regclass('public.events') IS NOT NULL,
       pg_size_pretty(pg_database_size(current_database())),
       (SELECT age(datfrozenxid) FROM pg_database WHERE datname = current_database()),
       (SELECT count(*) FROM pg_prepared_xacts),
       coalesce((SELECT string_agg(slot_name, ', ') FROM pg_replication_slots WHERE NOT active), '')`

// Diagnose checks the server, the database and the role of a pool that OpenGeneral returned: what the service checks
// at its start, settings that make it slow, and what stops it later. It changes nothing.
func Diagnose(ctx context.Context, pool *pgxpool.Pool, now func() time.Time) []Finding {
	var version, compression, wal, buffers, checkpoint, durable, standbys, jit, size, slots string
	var lz4, vacuums, migrated bool
	var walBytes, buffersBytes, checkpointSeconds, age, prepared int64
	err := pool.QueryRow(ctx, settingsSQL).Scan(&version, &compression, &lz4, &walBytes, &wal, &buffersBytes, &buffers,
		&checkpointSeconds, &checkpoint, &durable, &standbys, &vacuums, &jit, &migrated, &size, &age, &prepared, &slots)
	if err != nil {
		advice := "name a server that answers, and a role that may connect"
		if isFull(err) {
			advice = FullAdvice
		}
		return []Finding{{Check: "connect", Status: Fail, Found: err.Error(), Advice: advice}}
	}
	return []Finding{
		diagnoseServer(ctx, pool, version),
		refusal("rights", "the role may create what migrations create", CheckSchema(ctx, pool)),
		refusal("sessions", "each connection has a session", CheckSessions(ctx, pool)),
		finding("schema", "tables in schema public", !migrated, Warn, "there are none yet: `novelgate serve` or `novelgate migrate` creates them"),
		diagnoseRoom(ctx, pool),
		diagnoseClock(ctx, pool, now),
		finding("synchronous_commit", durable+", synchronous standbys: "+cmp.Or(standbys, "none"), durable == "local", Warn,
			"set it to on: the service's sessions do so, but other clients may lose what they commit"),
		finding("wal_compression", compression, compression == "off" && lz4, Warn,
			"set it to lz4: after each checkpoint every page that changes goes to the WAL as a whole"),
		finding("max_wal_size", wal, walBytes < leastWAL, Warn,
			"set it to 4GB or more: each checkpoint makes the pages that change go to the WAL as a whole once more"),
		finding("checkpoint_timeout", checkpoint, checkpointSeconds < leastCheckpoint, Warn,
			"set it to 15min: as for max_wal_size"),
		finding("shared_buffers", buffers, buffersBytes < leastBuffers, Warn,
			"set it to an eighth of the server's memory or more: index pages that do not fit are read and written repeatedly"),
		finding("autovacuum", map[bool]string{true: "on", false: "off"}[vacuums], !vacuums, Fail,
			"set autovacuum and track_counts to on: without them plans go wrong, and in the end the server stops"),
		finding("transaction ids", fmt.Sprintf("%d since the oldest", age), age > oldAge, Warn,
			"find out why autovacuum does not freeze: a replication slot, a prepared transaction, a session open for days"),
		finding("prepared transactions", fmt.Sprint(prepared), prepared > 0, Warn,
			"commit them or roll them back: they keep their locks, also that of the log, and hold back autovacuum"),
		finding("replication slots", cmp.Or(slots, "none without a consumer"), slots != "", Warn,
			"drop unused slots: the server keeps all WAL for them until its disk is full"),
		finding("jit", jit+", and off in the service's sessions", false, OK, ""),
		finding("database size", size, false, OK, ""),
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

// diagnoseRoom compares the connections that are left with those of one more replica, which a rollout starts before it
// stops an old one.
func diagnoseRoom(ctx context.Context, pool *pgxpool.Pool) Finding {
	const check = "connections"
	room, err := measureRoom(ctx, pool.Config().ConnConfig)
	if err != nil {
		return Finding{Check: check, Status: Fail, Found: err.Error(), Advice: "let the role open one more connection"}
	}
	left := room.left + 2 // the pool of OpenGeneral returns its two
	found := fmt.Sprintf("%d of %d are left (max_connections %d)", left, room.most, room.maxConnections)
	advice := fmt.Sprintf("raise max_connections, or the limit of the role or the database, or lower "+
		"--database-connections: one more replica uses %d by default, as a rollout starts", DefaultConnections)
	if left < leastCommands {
		return finding(check, found, true, Fail, "one more replica is refused: "+advice)
	}
	return finding(check, found, left < DefaultConnections, Warn, advice)
}

// diagnoseClock compares the clock of the server with the one of this machine.
func diagnoseClock(ctx context.Context, pool *pgxpool.Pool, now func() time.Time) Finding {
	const check = "clock"
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
