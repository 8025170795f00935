package e2e_test

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/testdb"
	"novelgate/projections"
)

// wantSoundLog checks the order of the log and of its streams, and compares the read models with a replay through the
// projections. It waits for the projections and returns the number of events. Call it without load.
func wantSoundLog(t testing.TB, databaseURL string) int {
	t.Helper()
	for what, query := range map[string]string{
		"events out of the order of their stream": `SELECT count(*) FROM (SELECT stream_version, row_number() OVER
			(PARTITION BY stream_id ORDER BY log_index) AS n FROM events) AS e WHERE stream_version <> n`,
		"log indexes without an event": `SELECT coalesce(max(log_index) + 1, 0) - count(*) FROM events`,
		// An append reads the clock under the lock, so recorded_at shows the order of commits.
		"events recorded before the event in front of them": `SELECT count(*) FROM (SELECT recorded_at, lag(recorded_at)
			OVER (ORDER BY log_index) AS before FROM events) AS e WHERE recorded_at < before`,
		"appends with another one inside": `SELECT (count(*) FILTER (WHERE batch_id IS DISTINCT FROM before)) - count(DISTINCT batch_id)
			FROM (SELECT batch_id, lag(batch_id) OVER (ORDER BY log_index) AS before FROM events) AS e`,
		"streams of two types":                   `SELECT count(*) FROM (SELECT FROM events GROUP BY stream_id HAVING count(DISTINCT stream_type) > 1) AS e`,
		"entries of the ledger without an event": `SELECT greatest(tree_size - (SELECT count(*) FROM events), 0) FROM ledger_state`,
		"signed checkpoints beyond the tree":     `SELECT count(*) FROM ledger_checkpoints WHERE tree_size > (SELECT tree_size FROM ledger_state)`,
		"novels with a title in common":          `SELECT count(*) - count(DISTINCT folded_title) FROM title_lookup`,
	} {
		if found := value[int](t, databaseURL, query); found != 0 {
			t.Errorf("%d %s", found, what)
		}
	}
	recorded := readLog(t, databaseURL)
	awaitProjections(t, databaseURL, recorded)

	wantSame(t, "a replay through the projections", contents(t, replayed(t, recorded)), contents(t, databaseURL))
	return len(recorded)
}

// readLog reads the whole log.
func readLog(t testing.TB, databaseURL string) []events.Recorded {
	t.Helper()
	connection := connect(t, databaseURL)
	defer func() { _ = connection.Close(context.Background()) }()
	all, err := eventlog.ReadFrom(context.Background(), connection, 0, math.MaxInt)
	if err != nil {
		t.Fatalf("read the log: %v", err)
	}
	return all
}

// insertEvents inserts events with a statement of the test, under the lock of the log like every append.
func insertEvents(t testing.TB, databaseURL, statement string) {
	t.Helper()
	err := eventlog.Under(t.Context(), testdb.Pool(t, databaseURL), func(tx pgx.Tx) error {
		// A statement that writes tens of megabytes may take longer on a busy machine than a pool allows.
		if _, err := tx.Exec(t.Context(), `SET LOCAL statement_timeout = 0`); err != nil {
			return err
		}
		_, err := tx.Exec(t.Context(), statement)
		return err
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, statement)
	}
}

// awaitProjections waits until every projection is at the end of the log, and returns the time that this took.
func awaitProjections(t testing.TB, databaseURL string, recorded []events.Recorded) time.Duration {
	t.Helper()
	began := time.Now()
	testdb.Eventually(t, "every projection is at the end", func() bool {
		return value[string](t, databaseURL,
			`SELECT coalesce(string_agg(DISTINCT state || ' ' || position, ', '), '') FROM projections`) ==
			fmt.Sprintf("running %d", len(recorded))
	})
	return time.Since(began)
}

// wantReplayed waits until every projection is at the end of the log, and compares each read model with a replay.
func wantReplayed(t *testing.T, databaseURL string) {
	t.Helper()
	recorded := readLog(t, databaseURL)
	awaitProjections(t, databaseURL, recorded)
	wantSame(t, "a replay through the projections", contents(t, replayed(t, recorded)), contents(t, databaseURL))
}

// contents returns the rows of each read model, sorted.
func contents(t testing.TB, databaseURL string) map[string][]string {
	t.Helper()
	connection := testdb.Connect(t, databaseURL)
	found := map[string][]string{}
	for _, p := range slices.Concat(projections.All(), projections.Inline()) {
		for _, table := range p.Tables() {
			found[table] = testdb.Values[string](t, connection, `SELECT t::text FROM `+table+` AS t`)
			slices.Sort(found[table])
		}
	}
	return found
}

// wantSame compares tables, and shows the first rows that differ.
func wantSame(t testing.TB, what string, want, got map[string][]string) {
	t.Helper()
	for table, rows := range got {
		if slices.Equal(rows, want[table]) {
			continue
		}
		missing, extra := without(want[table], rows), without(rows, want[table])
		t.Errorf("%s has %d rows, %s gives %d; the first of %d and %d that differ (-replay +table)\n%s", table, len(rows),
			what, len(want[table]),
			len(missing), len(extra), gocmp.Diff(missing[:min(3, len(missing))], extra[:min(3, len(extra))]))
	}
}

// without returns the elements of a that are not in b; both are sorted.
func without[T cmp.Ordered](a, b []T) []T {
	return slices.DeleteFunc(slices.Clone(a), func(row T) bool {
		_, found := slices.BinarySearch(b, row)
		return found
	})
}

// replayed replays the log into an empty database, in batches of any size, and returns its URL.
func replayed(t testing.TB, recorded []events.Recorded) string {
	t.Helper()
	ctx := context.Background()
	scratch := testdb.New(t)
	connection := testdb.Connect(t, scratch)
	for batch := range slices.Chunk(recorded, 5000) { // projections may look earlier events up
		var appends pgx.Batch
		if err := eventlog.Queue(&appends, batch); err != nil {
			t.Fatalf("copy the log: %v", err)
		}
		if err := connection.SendBatch(ctx, &appends).Close(); err != nil {
			t.Fatalf("copy the log: %v", err)
		}
	}
	all := append(projections.Inline(), projections.All()...)
	for len(recorded) > 0 {
		batch := recorded[:min(1+rand.IntN(500), len(recorded))]
		recorded = recorded[len(batch):]
		tx, err := connection.Begin(ctx)
		if err != nil {
			t.Fatalf("begin: %v", err)
		}
		for _, projection := range all {
			if err := projection.Apply(ctx, tx, batch); err != nil {
				t.Fatalf("replay %s: %v", projection.Name(), err)
			}
		}
		if err := tx.Commit(ctx); err != nil {
			t.Fatalf("commit: %v", err)
		}
	}
	return scratch
}

// outcome counts commands by outcome.
type outcome struct{ acknowledged, unknown, unknownStored int }

// reconcile compares the answers with the log, and then with a replay of every command: acknowledged commands are
// recorded once with their identifiers, others at most once, and nothing else is. Call it without load.
func (l *deliveryBook) reconcile(t testing.TB, p *Partner, r *Service, databaseURL string) outcome {
	t.Helper()
	stored := deliveries(t, databaseURL, p.IntegrationID)
	var seen outcome
	for _, c := range l.commands {
		streams := stored[c.path+" "+c.key]
		delete(stored, c.path+" "+c.key)
		switch {
		case len(streams) > 1:
			t.Errorf("%s %s is on record %d times", c.path, c.key, len(streams))
		case c.answered == nil:
			seen.unknown++
			seen.unknownStored += len(streams)
		case len(streams) == 0:
			t.Errorf("%s %s was acknowledged and is lost", c.path, c.key)
		case streams[0] != c.answered.stream():
			t.Errorf("%s %s is in stream %s, the answer said %s", c.path, c.key, streams[0], c.answered.stream())
		default:
			seen.acknowledged++
		}
		if c.parent != nil && c.answered != nil &&
			(c.answered.ParentPostID == nil || *c.answered.ParentPostID != c.parent.answered.PostID) {
			t.Errorf("the parent of %s is %v, want %s", c.key, c.answered.ParentPostID, c.parent.answered.PostID)
		}
		if t.Failed() {
			return seen // one is enough
		}
	}
	for name := range stored {
		t.Errorf("%s is on record and was never sent", name)
		break
	}
	l.replay(t, p, r, deliveries(t, databaseURL, p.IntegrationID))
	return seen
}

// replay sends every command again. stored are the commands recorded before.
func (l *deliveryBook) replay(t testing.TB, p *Partner, r *Service, stored map[string][]uuid.UUID) {
	t.Helper()
	began, work := time.Now(), make(chan *command)
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for c := range work {
				a, repeated := p.send(t, r.URL, c.path, c.key, c.body, false), false
				for ; a.unavailable() && time.Since(began) < patience; repeated = true { // a stall of the machine: the same again
					time.Sleep(50 * time.Millisecond)
					a = p.send(t, r.URL, c.path, c.key, c.body, false)
				}
				was := len(stored[c.path+" "+c.key]) == 1
				isReplay := a.status == http.StatusOK && a.header.Get("Idempotent-Replayed") == "true" &&
					a.header.Get("Idempotency-Mismatch") == ""
				isNew := (a.status == http.StatusCreated || a.status == http.StatusOK) && a.header.Get("Idempotent-Replayed") == ""
				if a.err != nil || was && !isReplay || !was && !isNew && (!repeated || !isReplay) {
					t.Errorf("replay of %s %s, on record before: %v, is answered with %d %v %v\n%s", c.path, c.key, was, a.status,
						a.header, a.err, a.body)
				}
				l.enter(c, a) // compares the identifiers
			}
		})
	}
	for _, c := range l.commands[:len(l.commands):len(l.commands)] {
		if t.Failed() {
			break
		}
		work <- c
	}
	close(work)
	all.Wait()
}

// deliveries returns the recorded commands of a partner: stream by path and key.
func deliveries(t testing.TB, databaseURL, integrationID string) map[string][]uuid.UUID {
	t.Helper()
	source := "integrations/" + integrationID
	rows, _ := testdb.Connect(t, databaseURL).Query(t.Context(), // ForEachRow returns its error
		`SELECT event_id, event_source, stream_id FROM event_log WHERE event_source = ANY($1)`,
		[]string{source + "/posts", source + "/novels"})
	found := map[string][]uuid.UUID{}
	var id, from string
	var stream uuid.UUID
	_, err := pgx.ForEachRow(rows, []any{&id, &from, &stream}, func() error {
		path := NovelsPath
		if strings.HasSuffix(from, "/posts") {
			path = PostsPath
		}
		found[path+" "+id] = append(found[path+" "+id], stream)
		return nil
	})
	if err != nil {
		t.Fatalf("read deliveries: %v", err)
	}
	return found
}
