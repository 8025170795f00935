package rebuild_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events"
	"novelgate/internal/testdb"
	"novelgate/projections"
	"novelgate/projections/rebuild"
)

// everyKind returns a history that fills every table that the novels and comments of inUse do not fill.
func everyKind() (recorded []events.Recorded) {
	add := func(streamType string, stream uuid.UUID, list ...events.Event) {
		for i, event := range list {
			recorded = append(recorded, events.Recorded{
				StreamType: streamType, StreamID: stream, StreamVersion: i + 1, ID: fmt.Sprint("kind ", len(recorded)),
				Source: "tests", Event: event,
			})
		}
	}
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	add(events.IntegrationStream, integrationID,
		events.IntegrationRegistered{Name: "Acme", RegisteredAt: at}, events.CapabilityEnabled{Capability: "posts"},
		events.KeyIssued{KeyID: uuid.UUID{1}, SHA256: make([]byte, 32), Prefix: "ngp_a", IssuedAt: at},
		events.KeyRevoked{KeyID: uuid.UUID{1}, RevokedAt: at})
	add(events.PersonStream, uuid.UUID{2}, events.PersonKeyIssued{
		KeyID: uuid.UUID{3}, SHA256: make([]byte, 32), Prefix: "nga_a", Role: "auditor", Name: "Otto", IssuedAt: at,
	})
	ref := events.AuthorRef{IntegrationID: integrationID, Author: &events.ExternalAuthor{ExternalUUID: "user-1"}}
	add(events.AuthorStream, testdb.AuthorID(integrationID, "user-1"),
		events.AuthorBlocked{AuthorRef: ref, Reason: "spam"})
	return recorded
}

// inUse returns a database with rows in all tables, whose projections run until stop.
func inUse(t *testing.T) (pool *pgxpool.Pool, stop func()) {
	t.Helper()
	pool = newPool(t)
	random := seeded(3)
	append1(t, pool, everyKind()...)
	for i := range 12 {
		append1(t, pool, partners(novel(random, fmt.Sprint("novel ", i)))...)
	}
	imported := comments(random, "first", 300)
	append1(t, pool, imported...)
	append1(t, pool, events.Recorded{
		StreamType: events.PostStream, StreamID: imported[0].StreamID, StreamVersion: 2, ID: "report",
		Source: events.PostReportsSource(integrationID), Event: events.PostReported{Reason: "spam", Reports: 1},
	})
	for _, p := range projections.Optional() {
		testdb.NoError(t, rebuild.SwitchOn(t.Context(), pool, p))
		mustRun(t, rebuild.Config{Pool: pool, Projection: p})
	}
	all := append(projections.All(), projections.Optional()...)
	stop = follow(t, pool, all...)
	for _, p := range all {
		caughtUp(t, pool, p.Name())
	}
	return pool, stop
}

// partners sets an integration as the actor of events, so that activity counts them.
func partners(recorded []events.Recorded) []events.Recorded {
	for i := range recorded {
		recorded[i].Source = fmt.Sprintf("%s#%d", events.NovelsSource(integrationID), i)
	}
	return recorded
}

func compare(t testing.TB, pool *pgxpool.Pool, name string) rebuild.Comparison {
	t.Helper()
	return testdb.Must(tryCompare(pool, name))(t)
}

func tryCompare(pool *pgxpool.Pool, name string) (rebuild.Comparison, error) {
	p, err := projections.Find(name)
	if err != nil {
		return rebuild.Comparison{}, err
	}
	return rebuild.Compare(context.Background(), rebuild.Config{Pool: pool, Projection: p, Logger: quiet()})
}

// differences summarises a comparison: table, kind, key and columns.
func differences(c rebuild.Comparison) string {
	var found []string
	for _, table := range c.Tables {
		for _, d := range table.Differences {
			found = append(found,
				strings.TrimSpace(fmt.Sprintf("%s %s %s %s", table.Name, d.Kind, d.Key, strings.Join(d.Columns, ","))))
		}
		equal := table.Digest == table.ReplayedDigest && table.Rows == table.ReplayedRows
		if equal != (table.DifferenceCount == 0) {
			found = append(found, fmt.Sprintf("%s has %+v", table.Name, table))
		}
	}
	return strings.Join(found, "; ")
}

func names() []string {
	var all []string
	for _, p := range slices.Concat(projections.All(), projections.Optional(), projections.Inline()) {
		all = append(all, p.Name())
	}
	return all
}

// TestCompareLocatesTampering: every change, deletion or insertion in a projected table is found and located; all other
// tables compare equal.
func TestCompareLocatesTampering(t *testing.T) {
	t.Parallel()
	testdb.SkipShort(t)
	pool, stop := inUse(t)
	stop()
	exec := func(sql string) {
		t.Helper()
		testdb.Exec(t, pool, sql)
	}
	for _, name := range names() {
		c := compare(t, pool, name)
		if found := differences(c); found != "" {
			t.Errorf("untouched: %s", found)
		}
		for _, table := range c.Tables {
			if table.Rows == 0 {
				t.Errorf("%s has no row to tamper with", table.Name)
			}
		}
	}
	for _, test := range []struct {
		projection, table, key string
		change                 string // SET …
		columns                string
		insert                 string // changed columns of a copied row
	}{
		{
			"posts", "posts", "post_id", "content_bytes = content_bytes + 1, depth = depth + 1", "content_bytes,depth",
			"gen_random_uuid() AS post_id",
		},
		{
			"posts", "authors", "author_id", "display_name = 'Mallory'", "display_name",
			"gen_random_uuid() AS author_id, 'm' || gen_random_uuid() AS external_uuid",
		},
		{"posts", "reported_posts", "post_id", "spam = spam - 1", "spam", "gen_random_uuid() AS post_id"},
		{"words", "post_words", "log_index", "words = words[1:1]", "words", "log_index + 1000000 AS log_index"},
		{"novels", "novels", "novel_id", "genres = '{\"a,b\"}'", "genres", "gen_random_uuid() AS novel_id"},
		{"activity", "daily_facts", "day integration_id novel_id", "posts = posts + 1", "posts", "day + 1000 AS day"},
		{
			"activity", "thread_activity", "thread_id", "replies = replies - 1", "replies",
			"gen_random_uuid() AS thread_id",
		},
		{
			"activity", "integration_activity", "integration_id",
			"last_activity_at = last_activity_at + interval '1 microsecond'", "last_activity_at",
			"gen_random_uuid() AS integration_id",
		},
		{
			"titles", "title_lookup", "folded_title", "details = details || '{\"author\": \"Mallory\"}'", "details",
			"'forged' AS folded_title, gen_random_uuid() AS novel_id, 'forged' AS slug",
		},
		{
			"threads", "threads", "novel_id", "thread_id = gen_random_uuid()", "thread_id",
			"gen_random_uuid() AS novel_id, gen_random_uuid() AS thread_id",
		},
		{
			"integrations", "integrations", "integration_id", "posts_per_minute = 1000000", "posts_per_minute",
			"gen_random_uuid() AS integration_id, 'Mallory' AS name, 'mallory' AS folded_name",
		},
		{
			"integrations", "api_keys", "key_id", "revoked_at = NULL", "revoked_at",
			"gen_random_uuid() AS key_id, sha256('x') AS key_hash",
		},
		{
			"persons", "person_keys", "key_id", "role = 'staff'", "role", "gen_random_uuid() AS key_id, sha256('x') AS key_hash",
		},
		{"author_decisions", "author_decisions", "author_id", "blocked = false", "blocked", "gen_random_uuid() AS author_id"},
	} {
		// The row, and its key as a difference names it.
		var parts []string
		for _, column := range strings.Fields(test.key) {
			parts = append(parts, fmt.Sprintf("'%s ' || %s", column, column))
		}
		says := strings.Join(parts, " || ', ' || ")
		var place, key string
		sql := fmt.Sprintf(`SELECT ctid::text, %s FROM %s AS t ORDER BY t::text DESC LIMIT 1`, says, test.table)
		if err := pool.QueryRow(t.Context(), sql).Scan(&place, &key); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
		exec(fmt.Sprintf(`CREATE TABLE sound AS TABLE %s`, test.table))
		try := func(tamper, want string) {
			t.Helper()
			exec(tamper)
			if got := differences(compare(t, pool, test.projection)); got != want {
				t.Errorf("%s\nfound  %q\nwanted %q", tamper, got, want)
			}
			exec(fmt.Sprintf(`DELETE FROM %[1]s; INSERT INTO %[1]s SELECT * FROM sound`, test.table))
			// The update has moved the row.
			if err := pool.QueryRow(t.Context(), fmt.Sprintf(`SELECT ctid::text FROM %s WHERE %s = $1`, test.table, says),
				key).Scan(&place); err != nil {
				t.Fatal(err)
			}
		}
		try(fmt.Sprintf(`UPDATE %s SET %s WHERE ctid = '%s'`, test.table, test.change, place),
			test.table+" changed "+key+" "+test.columns)
		try(fmt.Sprintf(`DELETE FROM %s WHERE ctid = '%s'`, test.table, place), test.table+" missing "+key)
		if test.insert != "" {
			exec(fmt.Sprintf(`CREATE TABLE forged AS SELECT * FROM %s WHERE ctid = '%s'`, test.table, place))
			for _, column := range strings.Split(test.insert, ", ") {
				value, name, _ := strings.Cut(column, " AS ")
				exec(fmt.Sprintf(`UPDATE forged SET %s = %s`, name, value))
			}
			forged := testdb.Value[string](t, pool, `SELECT `+says+` FROM forged`)
			try(fmt.Sprintf(`INSERT INTO %s SELECT * FROM forged`, test.table), test.table+" extra "+forged)
			exec(`DROP TABLE forged`)
		}
		exec(`DROP TABLE sound`)
	}
}

// TestCompareCountsDifferences: the first of many differences are listed, and all are counted.
func TestCompareCountsDifferences(t *testing.T) {
	t.Parallel()
	pool, stop := inUse(t)
	stop()
	testdb.Exec(t, pool, `TRUNCATE posts`)
	table := compare(t, pool, "posts").Tables[0]
	if len(table.Differences) != rebuild.MaxDifferences || table.DifferenceCount != 300 || table.Rows != 0 ||
		table.ReplayedRows != 300 {
		t.Errorf("%+v", table)
	}
	for i := 1; i < len(table.Differences); i++ {
		if table.Differences[i-1].Key >= table.Differences[i].Key {
			t.Errorf("not the first ones in order: %+v", table.Differences)
		}
	}
}

// TestCompareWhileInUse: live tables compare equal during writes, and a comparison delays neither appends nor
// projections.
func TestCompareWhileInUse(t *testing.T) {
	t.Parallel()
	pool, _ := inUse(t)
	done := make(chan struct{})
	var writers sync.WaitGroup
	for w := range 2 {
		writers.Go(func() {
			random := seeded(uint64(w) + 10)
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				name := fmt.Sprintf("%d-%d", w, i)
				append1(t, pool, append(comments(random, name, 20), partners(novel(random, "title "+name))...)...)
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
	for range 2 {
		for _, name := range names() {
			if found := differences(compare(t, pool, name)); found != "" {
				t.Errorf("%s: %s", name, found)
			}
		}
	}
	close(done)
	writers.Wait()
	for _, p := range projections.All() {
		caughtUp(t, pool, p.Name())
	}
	if left := testdb.Value[int](t, pool, `SELECT count(*) FROM pg_namespace WHERE nspname LIKE '%\_replayed'`); left != 0 {
		t.Errorf("%d schemas are left", left)
	}
}

// TestCompareStoppedAndSkipped: a stopped projection is compared up to its checkpoint, and the replay leaves out
// skipped events.
func TestCompareStoppedAndSkipped(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	random := seeded(1)
	append1(t, pool, comments(random, "before", 30)...)
	insertRaw(t, pool, "poison", `,"chapterNumber":"abc"`)
	append1(t, pool, comments(random, "after", 30)...)
	follow(t, pool, projections.Posts{})
	awaitFailed(t, pool, "posts")
	c := compare(t, pool, "posts")
	if found := differences(c); found != "" || c.Tables[0].Rows != 30 || c.Events != 30 || c.Position != 30 {
		t.Errorf("stopped: %+v", c)
	}
	testdb.Must(projections.Skip(t.Context(), pool, "posts", "staff:test", "damaged"))(t)
	caughtUp(t, pool, "posts")
	c = compare(t, pool, "posts")
	if found := differences(c); found != "" || c.Tables[0].Rows != 60 || c.Events != 62 || c.Position != 62 {
		t.Errorf("skipped: %+v", c)
	}
	// Move the checkpoint past the event without recording a skip.
	stamp := `UPDATE projections SET position = (SELECT count(*) FROM events)`
	insertRaw(t, pool, "poison 2", `,"chapterNumber":"abc"`)
	awaitFailed(t, pool, "posts")
	testdb.Exec(t, pool, stamp)
	if _, err := tryCompare(pool, "posts"); !errors.Is(err, rebuild.ErrNotComparable) ||
		!strings.Contains(err.Error(), `"poison 2"`) {
		t.Errorf("not on record: %v", err)
	}
}

// TestCompareAfterTheCheckpointWentBack: the replayed tables are beyond the live ones then, and say nothing about them.
func TestCompareAfterTheCheckpointWentBack(t *testing.T) {
	t.Parallel()
	pool := filled(t, "a", 300)
	stop := follow(t, pool, projections.Posts{})
	caughtUp(t, pool, "posts")
	stop()
	_, err := rebuild.Compare(t.Context(), rebuild.Config{
		Pool: pool, Projection: projections.Posts{}, ChunkSize: 100, Logger: quiet(), Progress: func(p rebuild.Progress) {
			if p.Done == 300 {
				testdb.Exec(t, pool, `UPDATE projections SET position = 290`)
			}
		},
	})
	if !errors.Is(err, rebuild.ErrNotComparable) || !strings.Contains(err.Error(), "went back from 300 to 290") {
		t.Errorf("got %v", err)
	}
}

// TestCompareRefuses: tables of another generation are not compared, and a role without the right to create schemas
// gets an error, as on a read-only server.
func TestCompareRefuses(t *testing.T) {
	t.Parallel()
	pool, stop := inUse(t)
	stop()
	testdb.Exec(t, pool, `UPDATE projections SET generation = 99 WHERE name = 'posts'`)
	if _, err := tryCompare(pool, "posts"); !errors.Is(err, rebuild.ErrNotComparable) ||
		!strings.Contains(err.Error(), "generation 99") {
		t.Errorf("another generation: %v", err)
	}
	for _, set := range []string{`SET ROLE pg_read_all_data`, `SET default_transaction_read_only = on`} {
		config := pool.Config()
		config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, set)
			return err
		}
		reader := testdb.Must(pgxpool.NewWithConfig(t.Context(), config))(t)
		t.Cleanup(reader.Close)
		if _, err := tryCompare(reader, "threads"); !errors.Is(err, rebuild.ErrMayNotCreate) {
			t.Errorf("after %s: %v", set, err)
		}
	}
}
