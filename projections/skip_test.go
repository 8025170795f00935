package projections_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/database"
	"novelgate/internal/testdb"
	"novelgate/projections"
)

func TestSkip(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	sick := allergic{
		newCounting(t, pool, "sick"), func(context.Context, database.Execer) error { return errors.New("indigestible") },
		new(atomic.Bool),
	}
	random := seeded(1)
	log := append(comments(random, "before", 7), comment(random, poisonKey))
	append1(t, pool, append(log, comments(random, "after", 5)...)...)
	run(t, projections.Config{Pool: pool, Projections: []projections.Projection{sick}, Logger: quiet()})
	awaitFailed(t, pool, "sick")
	before := status(t, pool, "sick")

	for _, refused := range []struct {
		name, reason string
		want         error
	}{
		{"nobody", "why", projections.ErrUnknownProjection}, {"sick", "", projections.ErrNoReason},
	} {
		if _, err := projections.Skip(t.Context(), pool, refused.name, "staff:test", refused.reason); !errors.Is(err,
			refused.want) {
			t.Errorf("skip %s because %q: %v, want %v", refused.name, refused.reason, err, refused.want)
		}
	}
	if err := projections.Retry(t.Context(), pool, "nobody"); !errors.Is(err, projections.ErrUnknownProjection) {
		t.Errorf("retry nobody: %v", err)
	}
	if diff := cmp.Diff(before, status(t, pool, "sick")); diff != "" && count(t, pool, "events") != 13 {
		t.Errorf("a refused skip has changed something:\n%s", diff)
	}

	skipped := testdb.Must(projections.Skip(t.Context(), pool, "sick", "staff:test", "damaged by hand"))(t)
	want := events.ProjectionEventSkipped{
		Projection: "sick", EventID: poisonKey, EventSource: events.PostsSource(integrationID), EventType: "post.imported.v1",
		LogIndex: *before.FailedAt, Reason: "damaged by hand",
	}
	if diff := cmp.Diff(want, skipped); diff != "" {
		t.Errorf("(-want +skipped):\n%s", diff)
	}
	testdb.Eventually(t, "caught up", caughtUp(t, pool, "sick"))
	if s := status(t, pool, "sick"); s.State != projections.Running || s.Error != nil || s.FailedAt != nil {
		t.Errorf("%+v", s)
	}
	// All but that event were applied, and the event that says so: 7 + 5 + 1.
	all := readAll(t, pool)
	wantApplied := append(indexes(all[:7]), indexes(all[8:])...)
	if diff := cmp.Diff(wantApplied, sick.applied(t, pool)); diff != "" {
		t.Errorf("(-all but the poison +applied):\n%s", diff)
	}

	history, err := eventlog.ReadStream(t.Context(), pool, events.ProjectionStream, events.ProjectionID("sick"), 0)
	if err != nil || len(history) != 1 {
		t.Fatalf("%d events on record, %v", len(history), err)
	}
	if h := history[0]; h.Event != events.Event(want) || h.Metadata.Actor != "staff:test" ||
		h.StreamType != events.ProjectionStream {
		t.Errorf("on record: %+v", h)
	}
	known := testdb.Must(projections.Skipped(t.Context(), pool, "sick"))(t)
	if diff := cmp.Diff(map[projections.Delivery]bool{{ID: poisonKey, Source: events.PostsSource(integrationID)}: true},
		known); diff != "" {
		t.Errorf("(-want +known):\n%s", diff)
	}
	if _, err := projections.Skip(t.Context(), pool, "sick", "staff:test", "again"); !errors.Is(err,
		projections.ErrNotFailed) {
		t.Errorf("skip while running: %v", err)
	}
}

// Two operators skip at once: one event is skipped, and the second of two bad ones is not.
func TestSkipAtOnce(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	p := newCounting(t, pool, "sick")
	append1(t, pool, comments(seeded(1), "before", 3)...)
	insertRaw(t, pool, "post.imported.v1", `["not what it was"]`)
	stop := run(t, projections.Config{Pool: pool, Projections: []projections.Projection{p}, Logger: quiet()})
	awaitFailed(t, pool, "sick")
	stop()
	ended := make(chan error, 4)
	for range cap(ended) {
		go func() {
			_, err := projections.Skip(context.Background(), pool, "sick", "staff:test", "why")
			ended <- err
		}()
	}
	done := 0
	for range cap(ended) {
		switch err := <-ended; {
		case err == nil:
			done++
		case !errors.Is(err, projections.ErrNotFailed):
			t.Error(err)
		}
	}
	history, err := eventlog.ReadStream(t.Context(), pool, events.ProjectionStream, events.ProjectionID("sick"), 0)
	if done != 1 || len(history) != 1 || err != nil {
		t.Errorf("%d were told that they skipped, %d events are on record, %v", done, len(history), err)
	}
}
