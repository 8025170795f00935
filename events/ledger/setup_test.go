package ledger_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/events/ledger"
	"novelgate/internal/database"
	"novelgate/internal/testdb"
)

// newPool returns a pool on a new database.
func newPool(t testing.TB) *pgxpool.Pool {
	t.Helper()
	return openPool(t, testdb.New(t))
}

func openPool(t testing.TB, url string) *pgxpool.Pool {
	t.Helper()
	pool := testdb.Must(database.OpenHistory(t.Context(), url))(t)
	t.Cleanup(pool.Close)
	return pool
}

// newSealedPool returns a pool on a database with sealed events and no running sealer.
func newSealedPool(t testing.TB, events int) *pgxpool.Pool {
	t.Helper()
	pool := newPool(t)
	appendEvents(t, pool, events)
	stop := startSealer(t, ledger.SealerConfig{Pool: pool})
	awaitSealed(t, pool)
	stop()
	return pool
}

// startSealer runs a sealer until stop is called or the test ends.
func startSealer(t testing.TB, config ledger.SealerConfig) (stop func()) {
	t.Helper()
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	if config.Pace == 0 {
		config.Pace = time.Millisecond
	}
	sealer := ledger.NewSealer(config)
	return testdb.Background(t, sealer.Run)
}

// appendEvents appends events together, each to a stream of its own.
func appendEvents(t testing.TB, pool *pgxpool.Pool, n int) {
	t.Helper()
	if err := tryAppend(t.Context(), pool, n); err != nil {
		t.Fatal(err)
	}
}

var integrationID = uuid.UUID{7}

func tryAppend(ctx context.Context, pool *pgxpool.Pool, n int) error {
	recorded := make([]events.Recorded, n)
	for i := range recorded {
		key := "key-" + uuid.NewString()
		recorded[i] = events.Recorded{
			StreamType: events.PostStream, StreamID: events.PostID(integrationID, key), StreamVersion: 1, ID: key,
			Source: events.PostsSource(integrationID),
			Event: events.PostImported{
				WrittenAt: time.Unix(int64(i), 0),
				Comment:   &events.Comment{ExternalUUID: "u", Username: "n", Content: fmt.Sprint("words ", i)},
			},
			Salt:     uuid.NullUUID{UUID: uuid.New(), Valid: true},
			Metadata: events.Metadata{Actor: events.IntegrationActor(integrationID)},
		}
		if i%5 == 3 {
			recorded[i].StreamType, recorded[i].Event, recorded[i].Salt = events.NovelStream, events.NovelApproved{Reason: "r"},
				uuid.NullUUID{}
		}
	}
	var batch pgx.Batch
	eventlog.Lock(&batch)
	if err := eventlog.Queue(&batch, recorded); err != nil {
		return fmt.Errorf("queue: %w", err)
	}
	if err := pool.SendBatch(ctx, &batch).Close(); err != nil {
		return fmt.Errorf("append: %w", err)
	}
	return nil
}

// generateSQL fills the log with typical comments. $1: number, $2: salt of their names.
const generateSQL = `INSERT INTO events (log_index, stream_type, stream_id, stream_version, event_id, integration_id, event_source, event_type, data, personal, salt,
    key_id, request_id, batch_id, fingerprint)
SELECT (SELECT coalesce(max(log_index) + 1, 0) FROM events) + i,
       'post', encode(substring(sha256(uuid_send(integration) || convert_to(key, 'UTF8')) FOR 16), 'hex')::uuid, 1,
       key, integration, 'posts', 'post.imported.v1',
       json_build_object('threadId', md5('t' || i)::uuid, 'novelId', md5('n' || i)::uuid,
                         'parentPostId', NULL, 'writtenAt', '2026-01-02T03:04:05Z', 'chapterNumber', i),
       json_build_object('externalUuid', md5('u' || i), 'username', 'reader ' || i, 'content',
           repeat('some words of a comment ', 8)),
       md5('s' || i)::uuid, md5('k')::uuid, md5('r' || i), (SELECT gen_random_uuid()), md5('f' || i)::uuid
FROM generate_series(0, $1::integer - 1) AS i,
     LATERAL (SELECT 'evt-' || md5($2 || i)::uuid, uuid '3f0e6f0a-6a5e-4a5e-9d0a-0a6a5e4a5e9d') AS k (key, integration)`

// generate fills the log with appends of size events each.
func generate(t testing.TB, pool *pgxpool.Pool, appends, size int) {
	t.Helper()
	conn := testdb.Must(pool.Acquire(t.Context()))(t)
	defer conn.Release()
	// Waiting for the disk tens of thousands of times would take longer than the test.
	testdb.Exec(t, conn, `SET synchronous_commit = off`)
	for n := range appends {
		testdb.Exec(t, conn, generateSQL, size, fmt.Sprint(n, "/"))
	}
	testdb.Exec(t, conn, `RESET synchronous_commit`)
}

func count(t testing.TB, pool *pgxpool.Pool, table string) int64 {
	t.Helper()
	var n int64
	if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM `+pgx.Identifier{table}.Sanitize()).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// treeSize returns the number of sealed events.
func treeSize(t testing.TB, pool *pgxpool.Pool) int64 {
	t.Helper()
	var n int64
	if err := pool.QueryRow(t.Context(), `SELECT tree_size FROM ledger_state`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// awaitSealed waits until all events are sealed.
func awaitSealed(t testing.TB, pool *pgxpool.Pool) {
	t.Helper()
	want := count(t, pool, "events")
	testdb.Eventually(t, fmt.Sprint(want, " events are sealed"), func() bool { return treeSize(t, pool) == want })
}

// gauge returns the value of a metric.
func gauge(t testing.TB, metrics *ledger.Metrics, name string) float64 {
	t.Helper()
	families := testdb.Must(metrics.Gather())(t)
	for _, family := range families {
		if family.GetName() == name {
			return family.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("no metric is called %s", name)
	return 0
}
