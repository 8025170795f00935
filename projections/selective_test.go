package projections_test

import (
	"testing"

	"novelgate/events"
	"novelgate/internal/testdb"
	"novelgate/projections"
)

// choosy is a counting projection that looks at posts only.
type choosy struct{ counting }

func (choosy) Streams() []string { return []string{events.PostStream} }

// What cannot be read in streams that a projection does not look at is none of its business, nor is a type that nobody
// knows.
func TestOnlyThoseWhoLookAreStopped(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	all, posts := newCounting(t, pool, "takes_all"), choosy{newCounting(t, pool, "posts_only")}
	random := seeded(1)
	append1(t, pool, comments(random, "before", 3)...)
	for i, raw := range []struct{ eventType, data string }{
		{"thread.opened.v1", `["not what it was"]`}, {"novel.eaten.v9", `{}`},
	} {
		testdb.Exec(t, pool, `INSERT INTO events (log_index, stream_type, stream_id, stream_version, event_id, event_source, event_type, data, actor, batch_id)
			VALUES ($3 + 3, 'novel', gen_random_uuid(), 1, $1, 'test', $1, $2::text::json, 'test', gen_random_uuid())`, raw.eventType, raw.data, i)
	}
	append1(t, pool, comments(random, "after", 4)...)
	run(t, projections.Config{Pool: pool, Projections: []projections.Projection{all, posts}, Logger: quiet()})
	awaitFailed(t, pool, "takes_all")
	testdb.Eventually(t, "the other has caught up", caughtUp(t, pool, "posts_only"))
	posts.wantApplied(t, pool, 7)
	all.wantApplied(t, pool, 3)
}

// Code of another generation than the live tables does not write them, and says nothing about them either.
func TestOtherGenerationIsLeftAlone(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	p := newCounting(t, pool, "newer")
	append1(t, pool, comments(seeded(1), "a", 5)...)
	insertRaw(t, pool, "post.imported.v1", `["not what it was"]`)
	readable := func() int { return status(t, pool, "newer").Generation }
	testdb.Exec(t, pool, `INSERT INTO projections (name, generation, position, state, updated_at) VALUES ('newer', 2, 0, 'running', now())`)
	other := newCounting(t, pool, "other")
	left := &meetings{text: "of another generation"}
	run(t, projections.Config{Pool: pool, Projections: []projections.Projection{p, other}, Logger: left.logger()})
	awaitFailed(t, pool, "other")
	testdb.Eventually(t, "this one has been given events",
		func() bool { return left.n.Load() > 0 || len(p.applied(t, pool)) > 0 })
	if n := len(p.applied(t, pool)); n != 0 || readable() != 2 || status(t, pool, "newer").State != projections.Running {
		t.Errorf("%d events were applied: %+v", n, status(t, pool, "newer"))
	}
	// The switch of a rebuild back.
	testdb.Exec(t, pool, `UPDATE projections SET generation = 1 WHERE name = 'newer'`)
	testdb.Eventually(t, "it has gone on", func() bool { return len(p.applied(t, pool)) == 5 })
}
