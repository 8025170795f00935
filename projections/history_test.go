package projections_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"pgregory.net/rapid"

	"novelgate/aggregates/author"
	"novelgate/aggregates/novel"
	"novelgate/aggregates/post"
	"novelgate/aggregates/principal"
	"novelgate/events"
	"novelgate/internal/testdb"
	"novelgate/internal/title"
	"novelgate/projections"
)

// world makes a random history of partners and staff. Titles, authors, days and moments are few, so that events meet.
type world struct {
	prefix       string // of titles, names and keys
	partners     []uuid.UUID
	novels       map[string]novel.Novel
	threads      map[string]uuid.UUID
	integrations map[uuid.UUID][]events.Recorded
	authors      map[uuid.UUID][]events.Recorded
	posts        []uuid.UUID
	states       map[uuid.UUID]post.Post
	log          []events.Recorded
}

// partnersOf returns the partners of a world.
func partnersOf(prefix string) []uuid.UUID {
	return []uuid.UUID{uuid.NewSHA1(uuid.Nil, []byte(prefix)), uuid.NewSHA1(uuid.Nil, []byte(prefix+", too"))}
}

func newWorld(prefix string) *world {
	return &world{
		prefix: prefix, partners: partnersOf(prefix), novels: map[string]novel.Novel{},
		threads: map[string]uuid.UUID{}, integrations: map[uuid.UUID][]events.Recorded{},
		authors: map[uuid.UUID][]events.Recorded{}, states: map[uuid.UUID]post.Post{},
	}
}

// anyHistory returns a history of at least n steps.
func anyHistory(t *rapid.T, prefix string, n int) []events.Recorded {
	w := newWorld(prefix)
	for range n {
		w.step(t)
	}
	return w.log
}

// longHistory returns the histories of n worlds, named "world 0" and so on, one after the other; always the same.
func longHistory(n int) (log []events.Recorded) {
	for i := range n {
		log = append(log, rapid.Custom(func(t *rapid.T) []events.Recorded {
			return anyHistory(t, fmt.Sprint("world ", i), 100)
		}).Example(i)...)
	}
	for i := range log {
		log[i].LogIndex = int64(i)
	}
	return log
}

func (w *world) record(source, streamType string, id uuid.UUID, version int, event events.Event) events.Recorded {
	at := len(w.log)
	w.log = append(w.log, events.Recorded{
		StreamType: streamType, StreamID: id, StreamVersion: version, ID: fmt.Sprintf("%s-%d", w.prefix, at),
		Source: source, Event: event, LogIndex: int64(at),
		RecordedAt: time.Date(2026, 3, 1, 23, 50+at, 0, 0, time.UTC),
	})
	return w.log[at]
}

// step is a random command of a partner or staff, which may be refused.
func (w *world) step(t *rapid.T) {
	spelled := w.prefix + " " + rapid.SampledFrom([]string{"Straße", "STRASSE", "Ὀδύσσεια", "novel", "NOVEL", "x"}).Draw(t,
		"title")
	folded := title.Fold(spelled)
	n := w.novels[folded]
	n.ID = events.NovelID(folded)
	partner := rapid.SampledFrom(w.partners).Draw(t, "partner")
	source := "staff/novels"
	var event events.Event
	var rest []events.Event
	text := rapid.Ptr(rapid.SampledFrom([]string{"", "a", "b\" \\ é"}), true)
	switch rapid.SampledFrom([]string{
		"upsert", "upsert", "publish", "approve", "reject", "bar", "edit", "thread", "integration", "author", "author",
		"author",
		"erase", "comment", "comment", "comment", "comment", "comment", "moderate", "change", "change", "change",
	}).Draw(t, "step") {
	case "upsert":
		_, event, _ = n.Upsert(novel.Upsert{
			IntegrationID: partner, Review: rapid.Bool().Draw(t, "review"), Title: spelled, Slug: title.Slug(folded),
			Fields: novel.Fields{
				Author: text.Draw(t, "author"), Synopsis: text.Draw(t, "synopsis"), Language: text.Draw(t, "language"),
				CoverURL: text.Draw(t, "cover"), ReadingStatus: text.Draw(t, "status"),
				Genres: rapid.Ptr(rapid.SliceOfN(rapid.SampledFrom([]string{"x", "y"}), 0, 2), true).Draw(t, "genres"),
			},
		})
		source = events.NovelsSource(partner)
		if rapid.Bool().Draw(t, "by a comment") {
			source = events.PostNovelSource(partner)
		}
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
			w.record(events.PostThreadSource(partner), events.ThreadStream, id, 1, events.ThreadOpened{NovelID: n.ID})
		}
		w.threads[folded] = id
	case "integration":
		w.integrate(t, partner)
	case "author":
		w.decideAuthor(t, partner)
	case "erase":
		external := rapid.SampledFrom(externals).Draw(t, "uuid")
		id := testdb.AuthorID(partner, external)
		for postID, p := range w.states {
			if c := p.Imported.Comment; c != nil && p.Imported.IntegrationID == partner && c.ExternalUUID == external {
				p.Imported.Comment = nil
				w.states[postID] = p
			}
		}
		w.authors[id] = append(w.authors[id], w.record("staff/authors", events.AuthorStream, id, len(w.authors[id])+1,
			events.AuthorErased{IntegrationID: partner}))
	case "comment":
		w.comment(t, partner, n.ID)
	case "moderate":
		if len(w.posts) > 0 {
			id := rapid.SampledFrom(w.posts).Draw(t, "post")
			if !w.states[id].Withdrawn {
				w.recordPost("staff/posts", id, rapid.SampledFrom([]events.Event{
					events.PostHidden{}, events.PostRestored{}, events.PostReportsDismissed{},
				}).Draw(t, "moderation"))
			}
		}
	case "change":
		w.change(t, partner)
	}
	if event == nil {
		return
	}
	for _, event := range append([]events.Event{event}, rest...) {
		n = n.Apply(event)
		w.record(source, events.NovelStream, n.ID, n.Version, event)
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
		past = append(past, w.record("staff/integrations", events.IntegrationStream, id, len(past)+1, event))
	}
	w.integrations[id] = past
}

// externals are the identifiers of authors.
var externals = []string{"a", "b/é \\", "c"}

// comment imports a comment: around midnight, under one of two names, as a reply to any comment or to what was never
// imported. Its author may have been erased.
func (w *world) comment(t *rapid.T, partner, novelID uuid.UUID) {
	random := seeded(rapid.Uint64().Draw(t, "comment"))
	e := events.PostImported{
		IntegrationID: partner, NovelID: novelID, ThreadID: events.ThreadID(novelID),
		WrittenAt: time.Date(2026, 3, 1, 23*random.IntN(3), 59*random.IntN(2), 30*random.IntN(2), 0, time.UTC),
		Comment: &events.Comment{
			ExternalUUID: externals[random.IntN(len(externals))], Username: fmt.Sprint("Name ", random.IntN(2)), Content: "téxt",
		},
	}
	if random.IntN(6) == 0 {
		e.Comment = nil
	}
	switch n := len(w.posts); {
	case n > 0 && random.IntN(3) == 0:
		e.ParentPostID = &w.posts[random.IntN(n)]
	case random.IntN(6) == 0:
		e.ParentPostID = &uuid.UUID{1}
	}
	if random.IntN(3) > 0 {
		e.ChapterNumber = jsontext.Value([]string{"1", "1.0", "2.50"}[random.IntN(3)])
	}
	id := events.PostID(partner, fmt.Sprintf("%s-%d", w.prefix, len(w.log)))
	w.posts = append(w.posts, id)
	w.recordPost(events.PostsSource(partner), id, e)
}

// recordPost records an event of a post.
func (w *world) recordPost(source string, id uuid.UUID, event events.Event) {
	p := w.states[id].Apply(event, time.Time{})
	w.states[id] = p
	w.record(source, events.PostStream, id, p.Version, event)
}

// change is a change of any post: an edit or a withdrawal by its partner, or a report by any. Edits come in any order.
func (w *world) change(t *rapid.T, partner uuid.UUID) {
	if len(w.posts) == 0 {
		return
	}
	id := rapid.SampledFrom(w.posts).Draw(t, "post")
	p := w.states[id]
	owner := p.Imported.IntegrationID
	switch rapid.SampledFrom([]string{"edit", "edit", "withdraw", "report"}).Draw(t, "change") {
	case "edit":
		cmd := post.Edit{EditedAt: time.Date(2026, 4, rapid.IntRange(1, 4).Draw(t, "day"), 0, 0, 0, 0, time.UTC)}
		cmd.Content = rapid.Ptr(rapid.SampledFrom([]string{"new", "newer text"}), true).Draw(t, "content")
		if chapter := rapid.SampledFrom([]string{"", "null", "1", "7"}).Draw(t, "chapter"); chapter != "" {
			cmd.ChapterNumber = jsontext.Value(chapter)
		}
		if edited, err := p.Edit(owner, cmd); err == nil {
			w.recordPost(events.PostEditsSource(owner), id, edited)
		}
	case "withdraw":
		if withdrawn, _ := p.Withdraw(owner); withdrawn != nil {
			w.recordPost(events.PostWithdrawalsSource(owner), id, withdrawn)
		}
	case "report":
		cmd := post.Report{Reason: rapid.SampledFrom(events.ReportReasons[:]).Draw(t, "reason"), Detail: "d", Reports: 2}
		if reported, err := p.Report(partner, true, cmd); err == nil {
			w.recordPost(events.PostReportsSource(partner), id, reported)
		}
	}
}

// decideAuthor is a random decision of staff about one of a few authors, whose events may be erased later.
func (w *world) decideAuthor(t *rapid.T, integrationID uuid.UUID) {
	ref := testdb.Must(author.Ref(integrationID, rapid.SampledFrom(externals).Draw(t, "uuid")))(t)
	id := testdb.AuthorID(integrationID, ref.Author.ExternalUUID)
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
		past = append(past, w.record("staff/authors", events.AuthorStream, id, len(past)+1, event))
	}
	w.authors[id] = past
}

// TestInlineFollowsAnyHistory: for any history, however it is cut into transactions, the inline
// projections give the rows of a replay, one event at a time.
func TestInlineFollowsAnyHistory(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	run := 0
	rapid.Check(t, func(r *rapid.T) {
		run++
		truncate(t, pool, projections.Inline())
		w, from := newWorld(fmt.Sprintf("run%d", run)), 0
		for range rapid.IntRange(1, 6).Draw(r, "transactions") {
			for range rapid.IntRange(1, 6).Draw(r, "steps") {
				w.step(r)
			}
			testdb.NoError(r, projections.Append(t.Context(), pool, w.log[from:]...))
			from = len(w.log)
		}
		if diff := modelsDiff(t, pool, w.log, projections.Inline()...); diff != "" {
			r.Fatal(diff)
		}
	})
}

func truncate(t testing.TB, pool *pgxpool.Pool, which []projections.Projection) {
	t.Helper()
	for _, p := range which {
		testdb.Exec(t, pool, `TRUNCATE `+strings.Join(p.Tables(), ", "))
	}
}
