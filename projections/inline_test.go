package projections_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"pgregory.net/rapid"

	"novelgate/aggregates/author"
	"novelgate/aggregates/novel"
	"novelgate/aggregates/principal"
	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/testdb"
	"novelgate/internal/title"
	"novelgate/projections"
)

// world is what a history has led to so far.
type world struct {
	prefix       string // of titles and names, so that runs do not meet
	owners       []uuid.UUID
	novels       map[string]novel.Novel
	threads      map[string]uuid.UUID
	integrations map[uuid.UUID][]events.Recorded
	authors      map[uuid.UUID][]events.Recorded
	decided      []events.Recorded // not appended yet
	n            int
}

func newWorld(prefix string) *world {
	return &world{
		prefix: prefix, owners: []uuid.UUID{uuid.New(), uuid.New()},
		novels: map[string]novel.Novel{}, threads: map[string]uuid.UUID{},
		integrations: map[uuid.UUID][]events.Recorded{}, authors: map[uuid.UUID][]events.Recorded{},
	}
}

func (w *world) record(streamType string, id uuid.UUID, version int, event events.Event) events.Recorded {
	w.n++
	recorded := events.Recorded{
		StreamType: streamType, StreamID: id, StreamVersion: version, ID: fmt.Sprintf("%s-%d", w.prefix, w.n),
		Source: "tests", Event: event,
	}
	w.decided = append(w.decided, recorded)
	return recorded
}

// step is something that a partner or staff does; refusals are fine.
func (w *world) step(t *rapid.T) {
	spelled := w.prefix + " " + rapid.SampledFrom([]string{"Straße", "STRASSE", "Ὀδύσσεια", "novel", "NOVEL", "x"}).Draw(t,
		"title")
	folded := title.Fold(spelled)
	n := w.novels[folded]
	n.ID = events.NovelID(folded)
	owner := rapid.SampledFrom(w.owners).Draw(t, "owner")
	var event events.Event
	var rest []events.Event
	text := rapid.Ptr(rapid.SampledFrom([]string{"", "a", "b\" \\ é"}), true)
	switch rapid.SampledFrom([]string{
		"upsert", "upsert", "publish", "approve", "reject", "bar", "edit", "thread", "integration", "author",
	}).Draw(t, "step") {
	case "upsert":
		_, event, _ = n.Upsert(novel.Upsert{
			IntegrationID: owner, Review: rapid.Bool().Draw(t, "review"), Title: spelled, Slug: title.Slug(folded),
			Fields: novel.Fields{
				Author: text.Draw(t, "author"), Synopsis: text.Draw(t, "synopsis"), Language: text.Draw(t, "language"),
				Genres: rapid.Ptr(rapid.SliceOfN(rapid.SampledFrom([]string{"x", "y"}), 0, 2), true).Draw(t, "genres"),
			},
		})
	case "publish":
		decided, _ := n.Publish(novel.Publication{
			Title: spelled, Slug: title.Slug(folded), Fields: novel.Fields{Language: text.Draw(t, "language")},
		})
		if len(decided) > 0 {
			event, rest = decided[0], decided[1:]
		}
	case "approve":
		event, _ = n.Approve("why")
	case "reject":
		event, _ = n.Reject("why")
	case "bar":
		event, _ = n.Bar(spelled, title.Slug(folded), "why")
	case "edit":
		event, _ = n.Edit(novel.Fields{Synopsis: text.Draw(t, "synopsis")}, "why")
	case "thread":
		if !n.Exists() {
			return
		}
		id := events.ThreadID(n.ID)
		if w.threads[folded] == uuid.Nil {
			w.record(events.ThreadStream, id, 1, events.ThreadOpened{NovelID: n.ID})
		}
		w.threads[folded] = id
	case "integration":
		w.integrate(t, owner)
	case "author":
		w.decideAuthor(t, owner)
	}
	if event == nil {
		return
	}
	for _, event := range append([]events.Event{event}, rest...) {
		n = n.Apply(event)
		w.record(events.NovelStream, n.ID, n.Version, event)
	}
	w.novels[folded] = n
}

func (w *world) integrate(t *rapid.T, id uuid.UUID) {
	past := w.integrations[id]
	i := principal.FoldIntegration(id, past)
	var decided []events.Event
	now := time.Date(2026, 1, 2, 3, 4, len(past), 999_999_999, time.UTC)
	switch {
	case !i.Exists():
		decided, _ = principal.Register(w.prefix+" "+id.String(), now)
	case rapid.Bool().Draw(t, "key"):
		keyID, hash := uuid.New(), uuid.New()
		decided, _ = i.IssueKey(events.KeyIssued{
			KeyID: keyID, Prefix: "ngp_", SHA256: slices.Concat(keyID[:], hash[:]), IssuedAt: now,
		})
	case len(i.Keys) > 0 && rapid.Bool().Draw(t, "revoke"):
		keys := slices.SortedFunc(maps.Keys(i.Keys), func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
		decided, _ = i.RevokeKey(keys[0], "", now)
	default:
		decided, _ = i.Change(principal.Change{
			Name: rapid.Ptr(rapid.SampledFrom([]string{w.prefix + " " + id.String(), w.prefix + " renamed " + id.String()}),
				true).Draw(t, "name"),
			Enabled:        rapid.Ptr(rapid.Bool(), true).Draw(t, "enabled"),
			PostsPerMinute: new(rapid.IntRange(0, 3).Draw(t, "limit")),
			Capabilities:   map[principal.Capability]bool{principal.Posts: rapid.Bool().Draw(t, "posts")},
		})
	}
	for _, event := range decided {
		past = append(past, w.record(events.IntegrationStream, id, len(past)+1, event))
	}
	w.integrations[id] = past
}

// decideAuthor is something that staff decide about one of a few authors, of whom parts may be erased later.
func (w *world) decideAuthor(t *rapid.T, integrationID uuid.UUID) {
	ref, err := author.Ref(integrationID, rapid.SampledFrom([]string{"a", "b/é \\", "c"}).Draw(t, "uuid"))
	if err != nil {
		t.Fatal(err)
	}
	id := events.AuthorID(integrationID, ref.Author.ExternalUUID)
	past := w.authors[id]
	a := author.Fold(ref, past)
	var decided []events.Event
	switch rapid.SampledFrom([]string{"link", "unlink", "block", "unblock", "hide", "restore"}).Draw(t, "decision") {
	case "link":
		decided, _ = a.Link(rapid.SampledFrom([]string{"m1", "m2"}).Draw(t, "member"), "why")
	case "unlink":
		decided, _ = a.Unlink("why")
	case "block":
		decided, _ = a.Block("why")
	case "unblock":
		decided, _ = a.Unblock("why")
	case "hide":
		decided, _ = a.HidePosts("why", time.Date(2026, 1, 2, 3, 4, len(past), 123_456_000, time.UTC))
	case "restore":
		decided, _ = a.RestorePosts("why")
	}
	for _, event := range decided {
		if linked, ok := event.(events.AuthorLinked); ok && rapid.IntRange(0, 4).Draw(t, "erased") == 0 {
			linked.Link = nil
			event = linked
		}
		past = append(past, w.record(events.AuthorStream, id, len(past)+1, event))
	}
	w.authors[id] = past
}

// TestRebuildEqualsInline holds for any history, however it was cut into transactions, however the log is cut into
// batches for the rebuild, and though batches are delivered again, overlapping.
func TestRebuildEqualsInline(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	rebuilt := rebuiltTables(t, pool)
	run := 0
	rapid.Check(t, func(r *rapid.T) {
		run++
		w := newWorld(fmt.Sprintf("run%d", run))
		for range rapid.IntRange(1, 6).Draw(r, "transactions") {
			for range rapid.IntRange(1, 6).Draw(r, "steps") {
				w.step(r)
			}
			if err := projections.Append(t.Context(), pool, w.decided...); err != nil {
				r.Fatal(err)
			}
			w.decided = nil
		}
		log := settled(t, pool, w.prefix, w.n)
		for _, table := range inlineTables {
			if _, err := rebuilt.Exec(t.Context(), `TRUNCATE `+table); err != nil {
				r.Fatal(err)
			}
		}
		applyInPieces(t.Context(), r, rebuilt, log)
		for _, table := range inlineTables {
			if diff := cmp.Diff(dump(t, pool, table, log), dump(t, rebuilt, table, log)); diff != "" {
				r.Fatalf("%s (-inline +rebuilt):\n%s", table, diff)
			}
		}
	})
}

var inlineTables = []string{"title_lookup", "threads", "integrations", "api_keys", "author_decisions"}

// rebuiltTables returns a pool whose search path leads to empty copies of the inline tables.
func rebuiltTables(t *testing.T, pool *pgxpool.Pool) *pgxpool.Pool {
	t.Helper()
	statement := `CREATE SCHEMA rebuilt;`
	for _, table := range inlineTables {
		statement += `CREATE TABLE rebuilt.` + table + ` (LIKE public.` + table + ` INCLUDING ALL);`
	}
	if _, err := pool.Exec(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
	config := pool.Config()
	config.ConnConfig.RuntimeParams["search_path"] = "rebuilt"
	rebuilt, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(rebuilt.Close)
	return rebuilt
}

// settled reads a run's events back from the log, in its order.
func settled(t *testing.T, pool *pgxpool.Pool, prefix string, want int) []events.Recorded {
	t.Helper()
	var log []events.Recorded
	testdb.Eventually(t, fmt.Sprint(want, " events have settled"), func() bool {
		log = nil
		all, err := eventlog.ReadAfter(t.Context(), pool, events.Position{}, 1_000_000)
		if err != nil {
			t.Fatal(err)
		}
		for _, recorded := range all {
			if len(recorded.ID) > len(prefix) && recorded.ID[:len(prefix)+1] == prefix+"-" {
				log = append(log, recorded)
			}
		}
		return len(log) == want
	})
	return log
}

func applyInPieces(ctx context.Context, r *rapid.T, pool *pgxpool.Pool, log []events.Recorded) {
	done := 0
	for done < len(log) {
		from := done - rapid.IntRange(0, done).Draw(r, "again")
		until := rapid.IntRange(from+1, len(log)).Draw(r, "until")
		for _, projection := range projections.Inline() {
			if err := projection.Apply(ctx, pool, log[from:until]); err != nil {
				r.Fatalf("apply %s to %d … %d: %v", projection.Name(), from, until, err)
			}
		}
		done = max(done, until)
	}
}

// dump returns the rows that belong to the streams of a log, as text, by key.
func dump(t *testing.T, pool *pgxpool.Pool, table string, log []events.Recorded) []string {
	t.Helper()
	var streams []uuid.UUID
	for _, recorded := range log {
		streams = append(streams, recorded.StreamID)
	}
	key := map[string]string{
		"title_lookup": "novel_id", "threads": "thread_id", "integrations": "integration_id", "api_keys": "integration_id",
		"author_decisions": "author_id",
	}[table]
	rows, err := pool.Query(t.Context(),
		`SELECT r::text FROM `+table+` r WHERE `+key+` = ANY ($1::uuid[]) ORDER BY r::text`, streams)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return lines
}
