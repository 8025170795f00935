package rebuild_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events"
	"novelgate/internal/testdb"
	"novelgate/projections"
	"novelgate/projections/rebuild"
)

var integrationID = uuid.MustParse("8f8f8f8f-0000-5000-8000-000000000001")

// newPool returns a pool on a new database.
func newPool(t testing.TB) *pgxpool.Pool {
	t.Helper()
	return testdb.Pool(t, testdb.New(t))
}

// append1 appends events in one transaction.
func append1(t testing.TB, pool *pgxpool.Pool, recorded ...events.Recorded) {
	t.Helper()
	if err := projections.Append(context.Background(), pool, recorded...); err != nil {
		t.Errorf("append %d events: %v", len(recorded), err)
	}
}

// filled is newPool with a log of n comments.
func filled(t testing.TB, prefix string, n int) *pgxpool.Pool {
	t.Helper()
	pool := newPool(t)
	append1(t, pool, comments(seeded(1), prefix, n)...)
	return pool
}

// interrupt starts a rebuild and ends it after some events, which is no error of the rebuild.
func interrupt(t testdb.Failer, config rebuild.Config, after events.Position) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	config.Logger = quiet()
	config.Progress = func(p rebuild.Progress) {
		if p.Done >= after {
			cancel()
		}
	}
	if _, err := rebuild.Run(ctx, config); !errors.Is(err, context.Canceled) {
		t.Fatal("an interrupted rebuild ended with", err)
	}
	var trouble *string
	err := config.Pool.QueryRow(context.Background(), `SELECT error FROM projection_rebuilds WHERE name = $1`,
		config.Projection.Name()).Scan(&trouble)
	if err != nil || trouble != nil {
		t.Fatal("an interrupted rebuild is on record with", trouble, err)
	}
}

// comments returns imports of synthetic comments by a few authors who often change their names; some are erased.
func comments(random *rand.Rand, prefix string, n int) []events.Recorded {
	recorded := make([]events.Recorded, n)
	for i := range recorded {
		recorded[i] = comment(random, fmt.Sprintf("%s-%d", prefix, i))
		if e, ok := recorded[i].Event.(events.PostImported); ok && i > 0 && random.IntN(3) == 0 {
			e.ParentPostID = &recorded[random.IntN(i)].StreamID
			recorded[i].Event = e
		}
	}
	return recorded
}

func comment(random *rand.Rand, key string) events.Recorded {
	novel := events.NovelID(fmt.Sprintf("novel %d", random.IntN(20)))
	author := random.IntN(30)
	e := events.PostImported{
		IntegrationID: integrationID, NovelID: novel, ThreadID: events.ThreadID(novel),
		WrittenAt: time.Date(2026, 1, 1, 0, random.IntN(20), 0, 0, time.UTC),
		Comment: &events.Comment{
			ExternalUUID: fmt.Sprintf("user-%d", author), Username: fmt.Sprintf("Name %d.%d", author, random.IntN(3)),
			Content: "“I did not expect\tthis\nchapter\\ to end like that.” " + key,
		},
	}
	switch random.IntN(6) {
	case 0:
		e.Comment = nil
	case 1:
		parent := events.PostID(integrationID, "parent of "+key)
		e.ParentPostID = &parent
	}
	if random.IntN(3) > 0 {
		numbers := []string{
			"0", "7", "12.50", "1000000", "0.001", "1e2", "1.50e1", "25E-1", "123456789012345678901234567890.5",
		}
		e.ChapterNumber = jsontext.Value(numbers[random.IntN(len(numbers))])
	}
	return events.Recorded{
		StreamType: events.PostStream, StreamID: events.PostID(integrationID, key), StreamVersion: 1,
		ID: key, Source: events.PostsSource(integrationID), Event: e,
		Metadata: events.Metadata{Actor: "integration:" + integrationID.String()},
	}
}

func seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, seed)) }

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// follow runs asynchronous projections until the returned function is called.
func follow(t testing.TB, pool *pgxpool.Pool, which ...projections.Projection) (stop func()) {
	t.Helper()
	runner := testdb.Must(projections.NewRunner(projections.Config{Pool: pool, Projections: which, Logger: quiet()}))(t)
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

func caughtUp(t testing.TB, pool *pgxpool.Pool, name string) {
	t.Helper()
	testdb.Eventually(t, name+" has caught up", func() bool {
		return testdb.Value[bool](t, pool, `SELECT position = (SELECT count(*) FROM events) FROM projections WHERE name = $1`, name)
	})
}

func count(t testing.TB, pool *pgxpool.Pool, table string) int {
	t.Helper()
	return testdb.Value[int](t, pool, "SELECT count(*) FROM "+pgx.Identifier{table}.Sanitize())
}

// digest returns a digest of all rows of a projection's tables.
func digest(t testing.TB, pool *pgxpool.Pool, p projections.Projection) string {
	t.Helper()
	all := ""
	for _, table := range p.Tables() {
		all += table + " " + digestOf(t, pool, `SELECT * FROM `+pgx.Identifier{table}.Sanitize()) + "\n"
	}
	return all
}

// wantDigest compares the digest of a projection's tables with an earlier one.
func wantDigest(t testing.TB, pool *pgxpool.Pool, p projections.Projection, want string) {
	t.Helper()
	if diff := cmp.Diff(want, digest(t, pool, p)); diff != "" {
		t.Errorf("rows of %s (-want +got):\n%s", p.Name(), diff)
	}
}

func wantRows(t testing.TB, pool *pgxpool.Pool, table string, want int) {
	t.Helper()
	if n := count(t, pool, table); n != want {
		t.Errorf("%s has %d rows, want %d", table, n, want)
	}
}

func awaitFailed(t testing.TB, pool *pgxpool.Pool, name string) {
	t.Helper()
	testdb.Eventually(t, name+" has failed", func() bool { return status(t, pool, name).State == projections.Failed })
}

// digestOf returns a digest of all rows of a query, with their number.
func digestOf(t testing.TB, pool *pgxpool.Pool, query string) string {
	t.Helper()
	return testdb.Value[string](t, pool, fmt.Sprintf(
		`SELECT count(*) || ' ' || coalesce(md5(string_agg(r::text, E'\n' ORDER BY r::text COLLATE "C")), '') FROM (%s) AS r`,
		query))
}

// mustRun runs a rebuild that must succeed.
func mustRun(t testing.TB, config rebuild.Config) rebuild.Result {
	t.Helper()
	if config.Logger == nil {
		config.Logger = quiet()
	}
	result := testdb.Must(rebuild.Run(context.Background(), config))(t)
	return result
}

// start runs a rebuild in the background.
func start(config rebuild.Config) (ended <-chan error) {
	config.Logger = quiet()
	end := make(chan error, 1)
	go func() {
		_, err := rebuild.Run(context.Background(), config)
		end <- err
	}()
	return end
}
