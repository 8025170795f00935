package projections_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"pgregory.net/rapid"

	"novelgate/events"
	"novelgate/internal/testdb"
	"novelgate/projections"
)

// TestModelsInAnyBatches: for any batches, redeliveries and overlaps the read models have the rows of a replay, one
// event at a time, also when comments are read after their author was erased.
func TestModelsInAnyBatches(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	rapid.Check(t, func(rt *rapid.T) {
		log := catalogueLog(rapid.Uint64().Draw(rt, "seed"), rapid.IntRange(1, 50).Draw(rt, "events"))
		applied := log
		if rapid.Bool().Draw(rt, "read after erasures") {
			applied = withoutErased(log)
		}
		truncateModels(t, pool)
		for done := 0; done < len(log); {
			from := done
			if rapid.Bool().Draw(rt, "again") {
				from = rapid.IntRange(0, done).Draw(rt, "from")
			}
			to := rapid.IntRange(from+1, len(log)).Draw(rt, "to")
			if err := (projections.Novels{}).Apply(context.Background(), pool, applied[from:to]); err != nil {
				t.Fatalf("apply to novels: %v", err)
			}
			if err := (projections.Activity{}).Apply(context.Background(), pool, applied[from:to]); err != nil {
				if from >= done || to <= done {
					t.Fatalf("apply to activity: %v", err)
				}
				// A batch that was counted in part is refused.
				if err := (projections.Activity{}).Apply(context.Background(), pool, applied[done:max(done, to)]); err != nil {
					t.Fatalf("apply to activity: %v", err)
				}
			}
			done = max(done, to)
		}
		if diff := modelsDiff(t, pool, log, projections.Novels{}, projections.Activity{}); diff != "" {
			rt.Error(diff)
		}
	})
}

// TestModelsFollowTheLog uses a runner and a stored log. The views count distinct authors.
func TestModelsFollowTheLog(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	log := catalogueLog(1, 2000)
	for part := range slices.Chunk(log, 97) {
		append1(t, pool, part...)
	}
	run(t, projections.Config{Pool: pool, Limit: 100})
	for _, p := range projections.All() {
		testdb.Eventually(t, p.Name()+" catches up", caughtUp(t, pool, p.Name()))
	}
	log = readAll(t, pool)
	if diff := modelsDiff(t, pool, log, projections.Novels{}, projections.Activity{}); diff != "" {
		t.Error(diff)
	}
	analyst := testdb.Begin(t, pool)
	testdb.Exec(t, analyst, `SET LOCAL TimeZone = 'Pacific/Kiritimati'`) // days are those of UTC all the same
	rows, err := analyst.Query(t.Context(), `SELECT concat_ws(' ', day, integration_id, novel_id), authors FROM analytics.daily_facts WHERE authors > 0
		UNION ALL SELECT concat_ws(' ', day, integration_id, novel_id), count(*) FROM analytics.daily_authors GROUP BY 1
		UNION ALL SELECT thread_id::text, participants FROM analytics.thread_activity WHERE participants > 0
		UNION ALL SELECT integration_id::text, authors FROM analytics.integration_activity WHERE authors > 0`)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]int{}
	var of string
	var authors int
	if _, err := pgx.ForEachRow(rows, []any{&of, &authors}, func() error {
		got[of] = append(got[of], authors)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(distinctAuthors(log), got); diff != "" {
		t.Errorf("distinct authors (-log +views):\n%s", diff)
	}
}

// distinctAuthors counts authors like the views: per thread, per integration and, in two views, per day, integration
// and novel.
func distinctAuthors(log []events.Recorded) map[string][]int {
	sets := map[string]map[uuid.UUID]bool{}
	for _, r := range log {
		switch e := r.Event.(type) {
		case events.PostImported:
			day := e.WrittenAt.UTC().Format(time.DateOnly)
			for _, of := range []string{
				e.ThreadID.String(), e.IntegrationID.String(), fmt.Sprintf("%s %s %s", day, e.IntegrationID, e.NovelID),
			} {
				if sets[of] == nil {
					sets[of] = map[uuid.UUID]bool{}
				}
				if e.Comment != nil {
					sets[of][events.AuthorID(e.IntegrationID, e.Comment.ExternalUUID)] = true
				}
			}
		case events.AuthorErased:
			for _, set := range sets {
				delete(set, r.StreamID)
			}
		default: // says nothing about authors
		}
	}
	counts := map[string][]int{}
	for of, set := range sets {
		switch n := len(set); {
		case n == 0:
		case strings.Contains(of, " "):
			counts[of] = []int{n, n}
		default:
			counts[of] = []int{n}
		}
	}
	return counts
}

// modelTables returns the tables of the projections novels and activity.
func modelTables() []string {
	return slices.Concat(projections.Novels{}.Tables(), projections.Activity{}.Tables())
}

func truncateModels(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	testdb.Exec(t, pool, `TRUNCATE `+strings.Join(modelTables(), ", "))
}

// catalogueLog returns a log of three partners and staff with a handful of novels. Few authors comment within few days,
// around midnight, often at the same instant. Some comments and authors are erased; these authors may comment again.
func catalogueLog(seed uint64, n int) []events.Recorded {
	random := seeded(seed)
	versions := map[uuid.UUID]int{}
	log := make([]events.Recorded, n)
	for i := range log {
		r := &log[i]
		novel := events.NovelID(fmt.Sprintf("novel %d", random.IntN(5)))
		integration := uuid.UUID{8: 0x80, 15: byte(1 + random.IntN(3))}
		key := fmt.Sprintf("key-%d", i)
		switch {
		case random.IntN(12) == 0:
			author := events.AuthorID(integration, someone(random))
			*r = events.Recorded{
				StreamType: events.AuthorStream, StreamID: author, Source: "staff/authors",
				Event: events.AuthorErased{IntegrationID: integration},
			}
			versions[author]++
			r.StreamVersion = versions[author]
		case random.IntN(3) > 0:
			*r = importedBy(random, integration, novel, key)
		case versions[novel] == 0 || random.IntN(2) == 0:
			*r = changed(random, integration, novel, versions[novel] == 0)
		default:
			*r = moderated(random, novel)
		}
		r.ID = key
		if r.StreamType == events.NovelStream {
			versions[novel]++
			r.StreamVersion = versions[novel]
		}
		r.LogIndex = int64(i)
		r.RecordedAt = time.Date(2026, 3, 1, 23, 50+i, 0, 0, time.UTC)
	}
	return log
}

func someone(random *rand.Rand) string { return fmt.Sprintf("user-%d", random.IntN(4)) }

// withoutErased returns the log as it is read at the end: comments of authors who were erased later have no content.
func withoutErased(log []events.Recorded) []events.Recorded {
	erased := map[uuid.UUID]bool{}
	read := slices.Clone(log)
	for i := range slices.Backward(read) {
		switch e := read[i].Event.(type) {
		case events.AuthorErased:
			erased[read[i].StreamID] = true
		case events.PostImported:
			if e.Comment != nil && erased[events.AuthorID(e.IntegrationID, e.Comment.ExternalUUID)] {
				e.Comment = nil
				read[i].Event = e
			}
		default: // has no data of an author
		}
	}
	return read
}

func importedBy(random *rand.Rand, integration, novel uuid.UUID, key string) events.Recorded {
	e := events.PostImported{
		IntegrationID: integration, NovelID: novel, ThreadID: events.ThreadID(novel),
		WrittenAt: time.Date(2026, 3, 1, random.IntN(72), 59*random.IntN(2), 30*random.IntN(2), 0, time.UTC),
		Comment:   &events.Comment{ExternalUUID: someone(random), Username: "Name", Content: "text"},
	}
	if random.IntN(3) == 0 {
		e.ParentPostID = &uuid.UUID{1}
	}
	if random.IntN(6) == 0 {
		e.Comment = nil
	}
	return events.Recorded{
		StreamType: events.PostStream, StreamID: events.PostID(integration, key), StreamVersion: 1,
		Source: events.PostsSource(integration), Event: e,
	}
}

func changed(random *rand.Rand, integration, novel uuid.UUID, create bool) events.Recorded {
	r := events.Recorded{StreamType: events.NovelStream, StreamID: novel, Source: events.NovelsSource(integration)}
	switch byStaff := random.IntN(4) == 0; {
	case create && byStaff:
		r.Event = events.NovelCreated{Title: "Title", Slug: novel.String(), Author: "Unknown", State: "published"}
		r.Source = "staff/novels/" + novel.String()
	case create:
		r.Event = events.NovelCreated{
			Title: "Title", Slug: novel.String(), Author: "Somebody", Synopsis: "About", Genres: []string{"a", "b"},
			Language: "ja", OwnerID: &integration, State: "approved",
		}
		if random.IntN(2) == 0 {
			r.Source = events.PostNovelSource(integration)
		}
	default:
		value := func() *string {
			return []*string{nil, nil, new(""), new(fmt.Sprint(random.IntN(100)))}[random.IntN(4)]
		}
		e := events.NovelUpdated{Synopsis: value(), CoverURL: value(), Language: value(), ReadingStatus: value()}
		if random.IntN(2) == 0 {
			e.Author, e.Genres = new("Another"), []*[]string{{}, {"c"}, {"d", "e", "f"}}[random.IntN(3)]
		}
		r.Event = e
	}
	return r
}

func moderated(random *rand.Rand, novel uuid.UUID) events.Recorded {
	return events.Recorded{
		StreamType: events.NovelStream, StreamID: novel, Source: "staff/novels/" + novel.String(),
		Event: []events.Event{events.NovelRejected{}, events.NovelApproved{}, events.NovelPublished{}}[random.IntN(3)],
	}
}

// TestFreshness: analysts see the lag of projections without further rights.
func TestFreshness(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	stop := run(t, projections.Config{Pool: pool, Projections: []projections.Projection{projections.Novels{}}})
	append1(t, pool, comments(seeded(1), "one", 5)...)
	testdb.Eventually(t, "caught up", caughtUp(t, pool, "novels"))
	stop()
	type freshness struct {
		Projection, State   string
		Generation          int
		Position, LagEvents int64
		LagSeconds          float64
		AsOf                time.Time
	}
	read := func() (f freshness, now time.Time) {
		tx := testdb.Begin(t, pool)
		defer func() { _ = tx.Rollback(context.Background()) }()
		testdb.Exec(t, tx, `SET LOCAL ROLE novelgate_analytics`)
		err := tx.QueryRow(t.Context(),
			`SELECT projection, state, position, generation, lag_events, lag_seconds, as_of, statement_timestamp() FROM analytics.freshness`).
			Scan(&f.Projection, &f.State, &f.Position, &f.Generation, &f.LagEvents, &f.LagSeconds, &f.AsOf, &now)
		if err != nil {
			t.Fatal(err)
		}
		return f, now
	}
	got, now := read()
	want := freshness{
		Projection: "novels", State: projections.Running, Position: 5, Generation: 1,
		AsOf: now,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("when caught up (-want +got):\n%s", diff)
	}
	append1(t, pool, comments(seeded(2), "two", 3)...)
	append1(t, pool, comments(seeded(3), "three", 3)...)
	got, now = read()
	want.LagEvents, want.AsOf = 6, readAll(t, pool)[5].RecordedAt
	want.LagSeconds = float64(now.Sub(want.AsOf).Microseconds()) / 1e6 // Seconds rounds twice
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("when behind (-want +got):\n%s", diff)
	}
}
