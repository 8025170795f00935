package projections_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"novelgate/events"
	"novelgate/internal/testdb"
	"novelgate/projections"
)

// changesLog returns a log with every kind of change, and many other events.
func changesLog(seed uint64, n int) []events.Recorded {
	random := seeded(seed)
	versions := map[uuid.UUID]int{}
	var log []events.Recorded
	add := func(streamType string, stream uuid.UUID, source string, event events.Event) {
		versions[stream]++
		log = append(log, events.Recorded{
			StreamType: streamType, StreamID: stream, StreamVersion: versions[stream], ID: fmt.Sprintf("%d-%d", seed, len(log)),
			Source: source, Event: event,
		})
	}
	var posts []uuid.UUID
	for len(log) < n {
		integration := uuid.UUID{8: 0x80, 15: byte(1 + random.IntN(3))}
		novel := events.NovelID(fmt.Sprintf("%d: novel %d", seed, random.IntN(5)))
		author := events.AuthorRef{IntegrationID: integration, Author: &events.ExternalAuthor{ExternalUUID: someone(random)}}
		authorID := events.AuthorID(integration, author.Author.ExternalUUID)
		thread := events.ThreadID(novel)
		switch random.IntN(9) {
		case 0, 1:
			if versions[novel] > 0 {
				add(events.NovelStream, novel, "staff/novels", []events.Event{
					events.NovelApproved{}, events.NovelRejected{}, events.NovelPublished{}, events.NovelUpdated{},
				}[random.IntN(4)])
				break
			}
			if random.IntN(3) == 0 { // not owned by an integration at first
				add(events.NovelStream, novel, "staff/novels", events.NovelBarred{Title: "T", Slug: novel.String()})
			}
			owner := &integration
			if random.IntN(3) == 0 {
				owner = nil
			}
			add(events.NovelStream, novel, events.NovelsSource(integration),
				events.NovelCreated{Title: "T", Slug: novel.String(), OwnerID: owner, State: "pending"})
		case 2:
			if versions[novel] > 0 && versions[thread] == 0 {
				add(events.ThreadStream, thread, events.PostThreadSource(integration), events.ThreadOpened{NovelID: novel})
			}
		case 3, 4:
			key := fmt.Sprintf("%d-%d", seed, len(log))
			posts = append(posts, events.PostID(integration, key))
			add(events.PostStream, posts[len(posts)-1], events.PostsSource(integration),
				events.PostImported{IntegrationID: integration, NovelID: novel, ThreadID: thread, WrittenAt: time.Unix(0, 0)})
		case 5:
			if len(posts) > 0 {
				add(events.PostStream, posts[random.IntN(len(posts))], "staff/posts",
					[]events.Event{events.PostHidden{}, events.PostRestored{}}[random.IntN(2)])
			}
		case 6:
			add(events.AuthorStream, authorID, "staff/authors", []events.Event{
				events.AuthorBlocked{AuthorRef: author},
				events.AuthorUnblocked{AuthorRef: author},
				events.AuthorPostsHidden{AuthorRef: author},
				events.AuthorPostsRestored{AuthorRef: author},
				events.AuthorErased{IntegrationID: integration},
				events.AuthorLinked{IntegrationID: integration},
				events.AuthorUnlinked{AuthorRef: author},
			}[random.IntN(7)])
		default:
			add(events.IntegrationStream, integration, "staff/integrations", []events.Event{
				events.IntegrationRenamed{Name: "N"}, events.IntegrationDisabled{},
			}[random.IntN(2)])
		}
	}
	return log
}

// TestChangesInAnyBatches: changes are the same however the log is cut into batches and redelivered.
func TestChangesInAnyBatches(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	for part := range slices.Chunk(changesLog(1, 600), 7) {
		append1(t, pool, part...)
	}
	log := readAll(t, pool)
	rapid.Check(t, func(rt *rapid.T) {
		testdb.Exec(t, pool, `TRUNCATE changes`)
		for done := 0; done < len(log); {
			from := done
			if rapid.Bool().Draw(rt, "again") {
				from = rapid.IntRange(0, done).Draw(rt, "from")
			}
			to := rapid.IntRange(from+1, len(log)).Draw(rt, "to")
			if err := (projections.Changes{}).Apply(context.Background(), pool, log[from:to]); err != nil {
				t.Fatal(err)
			}
			done = max(done, to)
		}
		if diff := modelsDiff(t, pool, log, projections.Changes{}); diff != "" {
			rt.Error(diff)
		}
	})
}

// TestChangesFollowTheLog: through the runner. Comments add nothing.
func TestChangesFollowTheLog(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	for part := range slices.Chunk(changesLog(2, 500), 13) {
		append1(t, pool, part...)
	}
	run(t, projections.Config{Pool: pool, Limit: 50})
	testdb.Eventually(t, "changes catches up", caughtUp(t, pool, "changes"))
	if diff := modelsDiff(t, pool, readAll(t, pool), projections.Changes{}); diff != "" {
		t.Error(diff)
	}
	var kinds int
	if err := pool.QueryRow(t.Context(), `SELECT count(DISTINCT kind) FROM changes`).Scan(&kinds); err != nil {
		t.Fatal(err)
	}
	if want := len(events.ChangeKinds()); kinds != want {
		t.Errorf("%d of %d kinds in the test", kinds, want)
	}
	before := count(t, pool, "changes")
	append1(t, pool, comments(seeded(3), "more", 200)...)
	testdb.Eventually(t, "changes catches up", caughtUp(t, pool, "changes"))
	if after := count(t, pool, "changes"); after != before {
		t.Errorf("comments added %d rows", after-before)
	}
}
