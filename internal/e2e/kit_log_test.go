package e2e_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
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
	recorded := awaitProjections(t, databaseURL)
	wantSame(t, contents(t, replayed(t, databaseURL, recorded)), contents(t, databaseURL))
	return len(recorded)
}

// insertEvents inserts events with a statement of the test, under the lock of the log like every append.
func insertEvents(t testing.TB, databaseURL, statement string) {
	t.Helper()
	err := eventlog.Under(t.Context(), testdb.Pool(t, databaseURL), func(tx pgx.Tx) error {
		// A statement that writes tens of megabytes may take longer on a busy machine than a pool allows.
		_, err := tx.Exec(t.Context(), `SET LOCAL statement_timeout = 0; `+statement)
		return err
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, statement)
	}
}

// awaitProjections reads the log and waits until every projection is at its end.
func awaitProjections(t testing.TB, databaseURL string) []events.Recorded {
	t.Helper()
	recorded := testdb.Must(eventlog.ReadFrom(context.Background(), testdb.Connect(t, databaseURL), 0, math.MaxInt))(t)
	testdb.Eventually(t, "every projection is at the end", func() bool {
		return value[string](t, databaseURL,
			`SELECT coalesce(string_agg(DISTINCT state || ' ' || position, ', '), '') FROM projections`) ==
			fmt.Sprintf("running %d", len(recorded))
	})
	return recorded
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
func wantSame(t testing.TB, want, got map[string][]string) {
	t.Helper()
	for table, rows := range got {
		if missing, extra := without(want[table], rows), without(rows, want[table]); len(missing)+len(extra) > 0 ||
			len(rows) != len(want[table]) {
			t.Errorf("%s has %d rows, want %d; the first of %d and %d that differ (-want +table)\n%s", table, len(rows),
				len(want[table]), len(missing), len(extra), cmp.Diff(missing[:min(3, len(missing))], extra[:min(3, len(extra))]))
		}
	}
}

// without returns the elements of a that are not in b, which is sorted.
func without(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(row string) bool {
		_, found := slices.BinarySearch(b, row)
		return found
	})
}

// replayed replays the log of a database into an empty one, in batches of any size, and returns its URL.
func replayed(t testing.TB, original string, recorded []events.Recorded) string {
	t.Helper()
	ctx := context.Background()
	scratch := testdb.New(t)
	connection := testdb.Connect(t, scratch)
	testdb.Exec(t, connection, `UPDATE settings SET value = $1 WHERE name = 'author_secret'`, // for ids of authors
		value[string](t, original, `SELECT value FROM settings WHERE name = 'author_secret'`))
	for batch := range slices.Chunk(recorded, 5000) { // projections may look earlier events up
		var appends pgx.Batch
		err := eventlog.Queue(&appends, batch)
		if err == nil {
			err = connection.SendBatch(ctx, &appends).Close()
		}
		if err != nil {
			t.Fatalf("copy the log: %v", err)
		}
	}
	all := append(projections.Inline(), projections.All()...)
	for len(recorded) > 0 {
		batch := recorded[:min(1+rand.IntN(500), len(recorded))]
		recorded = recorded[len(batch):]
		if err := pgx.BeginFunc(ctx, connection, func(tx pgx.Tx) error {
			for _, projection := range all {
				if err := projection.Apply(ctx, tx, batch); err != nil {
					return fmt.Errorf("replay %s: %w", projection.Name(), err)
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	return scratch
}
