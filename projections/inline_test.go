package projections_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"novelgate/aggregates/author"
	"novelgate/aggregates/novel"
	"novelgate/aggregates/principal"
	"novelgate/events"
	"novelgate/internal/testdb"
	"novelgate/internal/title"
	"novelgate/projections"
)

// world is the state of a random history.
type world struct {
	prefix       string // of titles and names, unique to the run
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

// step is a random command of a partner or staff, which may be refused.
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

// decideAuthor is a random decision of staff about one of a few authors, whose events may be erased later.
func (w *world) decideAuthor(t *rapid.T, integrationID uuid.UUID) {
	ref := testdb.Must(author.Ref(integrationID, rapid.SampledFrom([]string{"a", "b/é \\", "c"}).Draw(t, "uuid")))(t)
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

// TestInlineFollowsAnyHistory: for any history, however it is cut into transactions and redelivered, the inline
// projections give the rows of a replay, one event at a time.
func TestInlineFollowsAnyHistory(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	var tables []string
	for _, p := range projections.Inline() {
		tables = append(tables, p.Tables()...)
	}
	run := 0
	rapid.Check(t, func(r *rapid.T) {
		run++
		if _, err := pool.Exec(t.Context(), `TRUNCATE `+strings.Join(tables, ", ")); err != nil {
			r.Fatal(err)
		}
		w := newWorld(fmt.Sprintf("run%d", run))
		var log []events.Recorded
		for range rapid.IntRange(1, 6).Draw(r, "transactions") {
			for range rapid.IntRange(1, 6).Draw(r, "steps") {
				w.step(r)
			}
			if err := projections.Append(t.Context(), pool, w.decided...); err != nil {
				r.Fatal(err)
			}
			log = append(log, w.decided...)
			w.decided = nil
		}
		for again := rapid.IntRange(0, 2).Draw(r, "deliveries again"); again > 0 && len(log) > 0; again-- {
			from := rapid.IntRange(0, len(log)-1).Draw(r, "from")
			for _, p := range projections.Inline() {
				applyBatch(t, pool, p, log[from:rapid.IntRange(from+1, len(log)).Draw(r, "until")])
			}
		}
		if diff := modelsDiff(t, pool, log, projections.Inline()...); diff != "" {
			r.Fatal(diff)
		}
	})
}
