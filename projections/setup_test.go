package projections_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/testdb"
	"novelgate/projections"
)

// newPool returns a pool on a database of the test's own.
func newPool(t testing.TB) *pgxpool.Pool {
	t.Helper()
	return testdb.Pool(t, testdb.New(t))
}

// run starts a runner; the returned function ends it and waits for that. The test's end does so too.
func run(t testing.TB, config projections.Config) (stop func()) {
	t.Helper()
	if config.Logger == nil {
		config.Logger = slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	runner := testdb.Must(projections.NewRunner(config))(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- runner.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run projections: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

type testWriter struct{ t testing.TB }

func (w testWriter) Write(line []byte) (int, error) {
	w.t.Logf("%s", line)
	return len(line), nil
}

// append1 appends events in one transaction, without the inline projections: generated histories may contradict them.
func append1(t testing.TB, pool *pgxpool.Pool, recorded ...events.Recorded) {
	t.Helper()
	var batch pgx.Batch
	eventlog.Lock(&batch)
	testdb.NoError(t, eventlog.Queue(&batch, recorded))
	for i := range recorded {
		if _, ok := recorded[i].Event.(events.PostWithdrawn); ok {
			batch.Queue(`SELECT erase_post_events(ARRAY[$1::uuid])`, recorded[i].StreamID)
		}
	}
	eventlog.QueueNotification(&batch)
	if err := pool.SendBatch(context.Background(), &batch).Close(); err != nil {
		t.Fatalf("append %d events: %v", len(recorded), err)
	}
}

var integrationID = uuid.MustParse("8f8f8f8f-0000-5000-8000-000000000001")

// comment returns the import of a synthetic comment: one of many authors under one of several names.
func comment(random *rand.Rand, key string) events.Recorded {
	novel := events.NovelID(fmt.Sprintf("novel %d", random.IntN(50)))
	author := random.IntN(2000)
	e := events.PostImported{
		IntegrationID: integrationID, NovelID: novel, ThreadID: events.ThreadID(novel),
		WrittenAt: time.Date(2026, 1, 1, 0, 0, random.IntN(5000), 0, time.UTC),
		Comment: &events.Comment{
			ExternalUUID: fmt.Sprintf("user-%d", author),
			Username:     fmt.Sprintf("Name %d.%d", author, random.IntN(3)),
			Content: "“I did not expect this chapter to end like that.” " + key + fmt.Sprintf("%0*d", 50+random.IntN(300),
				7),
		},
	}
	if random.IntN(3) > 0 {
		e.ChapterNumber = jsontext.Value(fmt.Sprintf("%d.%d", random.IntN(900), random.IntN(10)))
	}
	if random.IntN(4) == 0 {
		parent := events.PostID(integrationID, fmt.Sprintf("parent of %s", key))
		e.ParentPostID = &parent
	}
	return events.Recorded{
		StreamType: events.PostStream, StreamID: events.PostID(integrationID, key), StreamVersion: 1,
		ID: key, Source: events.PostsSource(integrationID), Event: e,
		Metadata: events.Metadata{
			Actor: "integration:" + integrationID.String(), RequestID: uuid.NewString(), Correlation: key,
		},
	}
}

func comments(random *rand.Rand, prefix string, n int) []events.Recorded {
	recorded := make([]events.Recorded, n)
	for i := range recorded {
		recorded[i] = comment(random, fmt.Sprintf("%s-%d", prefix, i))
	}
	return recorded
}

func seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, seed)) }

// count returns the rows of a table.
func count(t testing.TB, pool *pgxpool.Pool, table string) int {
	t.Helper()
	return testdb.Value[int](t, pool, "SELECT count(*) FROM "+pgx.Identifier{table}.Sanitize())
}

// status returns the status of one projection.
func status(t testing.TB, pool *pgxpool.Pool, name string) projections.Status {
	t.Helper()
	list := testdb.Must(projections.List(context.Background(), pool))(t)
	for _, s := range list {
		if s.Name == name {
			return s
		}
	}
	return projections.Status{}
}

// caughtUp reports whether the projection has applied the last event of the log.
func caughtUp(t testing.TB, pool *pgxpool.Pool, name string) func() bool {
	return func() bool {
		t.Helper()
		return testdb.Value[bool](t, pool, `SELECT position = (SELECT count(*) FROM events) FROM projections WHERE name = $1`, name)
	}
}

// open opens a pool under an application name.
func open(t testing.TB, url, application string) *pgxpool.Pool {
	t.Helper()
	config := testdb.Must(pgxpool.ParseConfig(url))(t)
	config.ConnConfig.RuntimeParams["application_name"] = application
	pool := testdb.Must(pgxpool.NewWithConfig(context.Background(), config))(t)
	t.Cleanup(pool.Close)
	return pool
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// pause waits for d, or for the channel to be closed, which it reports as false.
func pause(end <-chan struct{}, d time.Duration) bool {
	select {
	case <-end:
		return false
	case <-time.After(d):
		return true
	}
}
