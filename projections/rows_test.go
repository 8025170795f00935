package projections_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/testdb"
	"novelgate/projections"
)

var update = flag.Bool("update", false, "rewrite testdata/rows.golden")

// everyProjection returns the inline projections and the asynchronous ones.
func everyProjection() []projections.Projection {
	return slices.Concat(projections.Inline(), projections.All(), projections.Optional())
}

// replayed returns the rows of the tables, sorted, that the projections derive from these batches. It appends missing
// to the log first, because a projection may look up an earlier event. What the database holds stays as it is.
func replayed(t testing.TB, pool *pgxpool.Pool, which []projections.Projection, missing []events.Recorded,
	batches ...[]events.Recorded,
) map[string][]string {
	t.Helper()
	tx := testdb.Must(pool.Begin(context.Background()))(t)
	defer func() { _ = tx.Rollback(context.Background()) }()
	var appends pgx.Batch
	testdb.NoError(t, eventlog.Queue(&appends, missing))
	if len(missing) > 0 { // statements also read when events were recorded
		appends.Queue(`ALTER TABLE events DISABLE TRIGGER ALL`)
		for _, r := range missing {
			appends.Queue(`UPDATE events SET recorded_at = $1 WHERE stream_id = $2 AND stream_version = $3`,
				r.RecordedAt, r.StreamID, r.StreamVersion)
		}
	}
	testdb.NoError(t, tx.SendBatch(context.Background(), &appends).Close())
	rows := map[string][]string{}
	for _, p := range which {
		for _, table := range p.Tables() {
			testdb.Exec(t, tx, `DELETE FROM `+table)
		}
		done := int64(0)
		for _, batch := range batches {
			if err := pgx.BeginFunc(context.Background(), tx, func(tx pgx.Tx) error {
				return p.Apply(context.Background(), tx, batch)
			}); err != nil {
				behind := batch[min(max(0, done-batch[0].LogIndex), int64(len(batch))):]
				if len(behind) == len(batch) || p.Name() != (projections.Activity{}).Name() {
					t.Fatalf("apply to %s: %v", p.Name(), err)
				}
				// Activity refuses a batch that it has counted in part.
				if err := p.Apply(context.Background(), tx, behind); err != nil {
					t.Fatalf("apply to %s what is behind: %v", p.Name(), err)
				}
			}
			done = max(done, batch[len(batch)-1].LogIndex+1)
		}
		maps.Copy(rows, rowsOf(t, tx, p))
	}
	return rows
}

// rowsOf returns the rows of the projection's tables as JSON, sorted.
func rowsOf(t testing.TB, tx pgx.Tx, p projections.Projection) map[string][]string {
	t.Helper()
	testdb.Exec(t, tx, `SET LOCAL timezone = 'UTC'`)
	rows := map[string][]string{}
	for _, table := range p.Tables() {
		rows[table] = testdb.Values[string](t, tx, `SELECT row_to_json(t)::text FROM `+table+` AS t`)
		slices.Sort(rows[table])
	}
	return rows
}

// modelsDiff compares the tables of projections with those of a replay, and returns the differing rows. A short log is
// replayed one event at a time.
func modelsDiff(t testing.TB, pool *pgxpool.Pool, log []events.Recorded, which ...projections.Projection) string {
	t.Helper()
	want := replayed(t, pool, which, nil, slices.Collect(slices.Chunk(log, 1+len(log)/2000))...)
	got := map[string][]string{}
	tx := testdb.Begin(t, pool)
	defer func() { _ = tx.Rollback(context.Background()) }()
	for _, p := range which {
		maps.Copy(got, rowsOf(t, tx, p))
	}
	return fmt.Sprintf("%.3000s", cmp.Diff(want, got))
}

// TestRows: each history gives the rows in testdata/rows.golden, whether its events come in one batch, in two or one by
// one.
func TestRows(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 1, 2, 12, 0, 0, 123456000, time.UTC)
	partner := uuid.UUID{1}
	key := func(n byte) []byte { return bytes.Repeat([]byte{n}, 32) }
	created := events.NovelCreated{
		Title: "Straße  ", Slug: "strasse", Author: "A", Synopsis: "S", Genres: []string{"g"}, OwnerID: &partner,
		State: "approved",
	}
	updated := events.NovelUpdated{Author: new("B"), Synopsis: new(""), Genres: new([]string{})}
	another := created
	another.Title, another.Slug = "By a comment", "by-a-comment"
	by := func(source string, id uuid.UUID, version int, event events.Event) events.Recorded {
		r := history(events.NovelStream, id, version, event)[0]
		r.Source = source
		return r
	}
	barred := events.NovelBarred{Title: "STRASSE", Slug: "strasse", Reason: "spam"}
	hosts := events.NovelCreated{Title: "Straße  ", Slug: "strasse", Author: "H", State: "published"}
	ref := events.AuthorRef{IntegrationID: integrationID, Author: &events.ExternalAuthor{ExternalUUID: "u"}}
	link := func(member string) events.Event {
		return events.AuthorLinked{
			IntegrationID: integrationID, Link: &events.AuthorLink{ExternalUUID: "u", MemberID: member},
		}
	}
	novels := func(list ...events.Event) []events.Recorded {
		return history(events.NovelStream, uuid.UUID{7}, 1, list...)
	}
	said := func(key, user, name string, written int, parent, chapter string) events.Recorded {
		e := events.PostImported{
			IntegrationID: partner, NovelID: uuid.UUID{7}, ThreadID: uuid.UUID{9},
			WrittenAt: noon.Add(time.Duration(written) * time.Minute),
			Comment:   &events.Comment{ExternalUUID: user, Username: name, Content: "téxt"},
		}
		if chapter != "" {
			e.ChapterNumber = jsontext.Value(chapter)
		}
		if parent != "" {
			e.ParentPostID = new(events.PostID(partner, parent))
		}
		return events.Recorded{
			StreamType: events.PostStream, StreamID: events.PostID(partner, key), StreamVersion: 1, ID: key,
			Source: events.PostsSource(partner), Event: e,
		}
	}
	unread := said("unread", "u", "", 7, "", "")
	imported, _ := unread.Event.(events.PostImported)
	imported.Comment, imported.ParentLost = nil, true
	unread.Event = imported
	pool := newPool(t)
	histories := map[string][]events.Recorded{
		"created":                         novels(created),
		"updated and cleared":             novels(created, updated),
		"updated twice":                   novels(created, updated, events.NovelUpdated{Synopsis: new("T")}),
		"rejected":                        novels(created, events.NovelRejected{}),
		"approved again":                  novels(created, events.NovelRejected{}, events.NovelApproved{}),
		"adopted by the host":             novels(created, updated, events.NovelPublished{}),
		"barred":                          novels(barred),
		"free":                            novels(barred, events.NovelUnbarred{}),
		"barred again":                    novels(barred, events.NovelUnbarred{}, barred),
		"free, then created by a partner": novels(barred, events.NovelUnbarred{}, created),
		"free, then created, changed and adopted": novels(barred, events.NovelUnbarred{}, created, updated,
			events.NovelPublished{}),
		"free, then published":            novels(barred, events.NovelUnbarred{}, hosts),
		"free, then created and rejected": novels(barred, events.NovelUnbarred{}, created, events.NovelRejected{}),
		"threads": slices.Concat(
			history(events.ThreadStream, uuid.UUID{9}, 1, events.ThreadOpened{NovelID: uuid.UUID{2}}),
			history(events.ThreadStream, uuid.UUID{8}, 1, events.ThreadOpened{NovelID: uuid.UUID{1}})),
		"integration": history(events.IntegrationStream, partner, 1,
			events.IntegrationRegistered{Name: "Partner", RegisteredAt: noon},
			events.CapabilityEnabled{Capability: "novels"},
			events.CapabilityEnabled{Capability: "posts"},
			events.RateLimitSet{Operation: "posts", PerMinute: 6000},
			events.RateLimitSet{Operation: "novels"},
			events.ReviewModeSet{Review: true},
			events.KeyIssued{KeyID: uuid.UUID{5}, Prefix: "ngp_AbC1", SHA256: key(1), IssuedAt: noon},
			events.KeyIssued{
				KeyID: uuid.UUID{6}, Prefix: "ngp_XyZ9", SHA256: key(2), IssuedAt: noon, ExpiresAt: new(noon.Add(time.Hour)),
			},
			events.CapabilityDisabled{Capability: "novels"},
			events.KeyRevoked{KeyID: uuid.UUID{5}, RevokedAt: noon.Add(time.Minute)},
			events.KeyExpirySet{KeyID: uuid.UUID{6}, ExpiresAt: noon.Add(2 * time.Minute)},
			events.IntegrationDisabled{},
			events.ReviewModeSet{},
			events.IntegrationRenamed{Name: "Another"},
			events.RateLimitSet{Operation: "novels", PerMinute: 9}),
		"person": history(events.PersonStream, events.PersonID("staff", "Ada"), 1,
			events.PersonKeyIssued{
				Name: "Ada", Role: "staff", KeyID: uuid.UUID{5}, Prefix: "ngs_AbC1", SHA256: key(1), IssuedAt: noon,
			},
			events.PersonKeyIssued{
				Name: "ADA", Role: "staff", KeyID: uuid.UUID{6}, Prefix: "ngs_XyZ9", SHA256: key(2), IssuedAt: noon,
				ExpiresAt: new(noon.Add(time.Hour)),
			},
			events.PersonKeyRevoked{KeyID: uuid.UUID{5}, RevokedAt: noon.Add(time.Minute)}),
		"author, linked": history(events.AuthorStream, testdb.AuthorID(integrationID, "u"), 1,
			events.AuthorBlocked{AuthorRef: ref, Reason: "r"}, link("m"), events.AuthorPostsHidden{AuthorRef: ref, Until: noon},
			events.AuthorUnblocked{AuthorRef: ref}, link("n")),
		"author, unlinked": history(events.AuthorStream, testdb.AuthorID(integrationID, "u"), 1,
			link("m"), events.AuthorPostsHidden{AuthorRef: ref, Until: noon}, events.AuthorPostsRestored{AuthorRef: ref},
			events.AuthorUnlinked{AuthorRef: ref}, events.AuthorLinked{IntegrationID: integrationID}), // erased: to nobody
		"author, erased": history(events.AuthorStream, testdb.AuthorID(integrationID, "u"), 1,
			link("m"), events.AuthorBlocked{AuthorRef: ref}, events.AuthorErased{IntegrationID: integrationID}),
		"novel of a partner, by its own commands": {
			by(events.NovelsSource(partner), uuid.UUID{7}, 1, created),
			by(events.NovelsSource(partner), uuid.UUID{7}, 2, updated),
			by(events.PostNovelSource(partner), uuid.UUID{8}, 1, another),
		},
		"notifications": slices.Concat(
			novels(created, events.NovelRejected{}, events.NovelApproved{}, events.NovelPublished{}),
			history(events.ThreadStream, uuid.UUID{9}, 1, events.ThreadOpened{NovelID: uuid.UUID{7}}),
			history(events.ThreadStream, uuid.UUID{10}, 1, events.ThreadOpened{NovelID: uuid.UUID{8}})), // of no partner
		"comments": slices.Concat(
			[]events.Recorded{
				said("a", "u", "U", 0, "", "1.50e1"), said("b", "v", "V", -2000, "a", "15"), said("c", "u", "U", 5, "b", "0.0"),
				said("d", "v", "V", 6, "never imported", ""), unread,
			},
			history(events.PostStream, events.PostID(partner, "a"), 2, events.PostHidden{}, events.PostRestored{}),
			history(events.PostStream, events.PostID(partner, "b"), 2, events.PostHidden{})),
		"comments, of which the latest gives the name": {
			said("a", "u", "First", 5, "", ""), said("b", "u", "Backdated", 1, "", ""),
			said("c", "u", "Same instant", 5, "", ""),
		},
		"comments, edited and withdrawn": slices.Concat(
			[]events.Recorded{said("a", "u", "U", 0, "", ""), said("b", "u", "U", 1, "", "")},
			history(events.PostStream, events.PostID(partner, "a"), 2,
				events.PostEdited{NewText: true, Comment: &events.Comment{ExternalUUID: "u", Username: "U", Content: "new words"}},
				events.PostEdited{NewChapter: true}),
			history(events.PostStream, events.PostID(partner, "b"), 2, events.PostWithdrawn{})),
		"comments of an erased author, who comes back": slices.Concat(
			[]events.Recorded{said("a", "u", "U", 0, "", ""), said("b", "v", "V", 0, "a", "")},
			history(events.AuthorStream, testdb.AuthorID(partner, "u"), 1, events.AuthorErased{IntegrationID: partner}),
			[]events.Recorded{said("c", "u", "Again", 1, "", "")}),
	}
	var golden strings.Builder
	for _, name := range slices.Sorted(maps.Keys(histories)) {
		log := histories[name]
		for i := range log {
			log[i].LogIndex, log[i].RecordedAt = int64(i), noon.Add(time.Duration(i)*time.Hour)
		}
		oneByOne := slices.Collect(slices.Chunk(log, 1))
		want := replayed(t, pool, everyProjection(), log, oneByOne...)
		for delivery, batches := range map[string][][]events.Recorded{
			"at once": {log}, "in halves": slices.Collect(slices.Chunk(log, (len(log)+1)/2)),
		} {
			for table, rows := range replayed(t, pool, everyProjection(), log, batches...) {
				if diff := cmp.Diff(want[table], rows); diff != "" {
					t.Errorf("%s, %s: %s differs (-one by one +table):\n%s", name, delivery, table, diff)
				}
			}
		}
		fmt.Fprintf(&golden, "== %s\n", name)
		for _, table := range slices.Sorted(maps.Keys(want)) {
			for _, row := range want[table] {
				fmt.Fprintf(&golden, "%s %s\n", table, row)
			}
		}
	}
	const file = "testdata/rows.golden"
	if *update {
		testdb.NoError(t, os.WriteFile(file, []byte(golden.String()), 0o644))
	}
	pinned := testdb.Must(os.ReadFile(file))(t)
	if diff := cmp.Diff(strings.Split(string(pinned), "\n"), strings.Split(golden.String(), "\n")); diff != "" {
		t.Errorf("rows differ (-golden +tables; go test -run TestRows ./projections -update accepts them):\n%s", diff)
	}
}

// assertTables fails unless posts and authors hold what the log says, and analysts see the texts.
func assertTables(t testing.TB, pool *pgxpool.Pool) {
	t.Helper()
	log := readAll(t, pool)
	if diff := modelsDiff(t, pool, log, projections.Posts{}); diff != "" {
		t.Error(diff)
	}
	hidden := map[uuid.UUID]bool{}
	for _, recorded := range log {
		switch recorded.Event.(type) {
		case events.PostHidden:
			hidden[recorded.StreamID] = true
		case events.PostRestored:
			hidden[recorded.StreamID] = false
		default: // says nothing about that
		}
	}
	want := map[uuid.UUID]string{}
	for _, recorded := range log {
		if e, ok := recorded.Event.(events.PostImported); ok && e.Comment != nil && !hidden[recorded.StreamID] {
			want[recorded.StreamID] = recorded.ID + ": " + e.Comment.Content
		}
	}
	if diff := cmp.Diff(want, readTexts(t, pool)); diff != "" {
		t.Errorf("texts differ (-log +view):\n%.2000s", diff)
	}
}

// readTexts returns the keys and texts that analysts see.
func readTexts(t testing.TB, pool *pgxpool.Pool) map[uuid.UUID]string {
	t.Helper()
	rows, err := pool.Query(context.Background(),
		`SELECT post_id, idempotency_key || ': ' || content FROM analytics.posts WHERE content IS NOT NULL`)
	if err != nil {
		t.Fatalf("read texts: %v", err)
	}
	texts := map[uuid.UUID]string{}
	var id uuid.UUID
	var text string
	if _, err := pgx.ForEachRow(rows, []any{&id, &text}, func() error {
		texts[id] = text
		return nil
	}); err != nil {
		t.Fatalf("read texts: %v", err)
	}
	return texts
}
