package staff_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/aggregates/novel"
	"novelgate/aggregates/post"
	"novelgate/aggregates/principal"
	"novelgate/commands/staff"
	"novelgate/events"
)

// TestIdentifierOfSomethingElse: a command on what has another kind of stream finds nothing and stores nothing.
func TestIdentifierOfSomethingElse(t *testing.T) {
	t.Parallel()
	s := setup(t)
	novelID := imported(t, s, "Genji", novel.Approved)
	made, err := s.CreateIntegration(t.Context(), "Partner", principal.Change{})
	if err != nil {
		t.Fatal(err)
	}
	stored := func() (n int) {
		t.Helper()
		if err := s.Pool.QueryRow(t.Context(), `SELECT count(*) FROM events`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := stored()
	for name, tc := range map[string]struct {
		do   func() error
		want error
	}{
		"key of a novel": {
			func() error { _, _, err := s.IssueKey(t.Context(), novelID, 0); return err }, principal.ErrNotFound,
		},
		"settings of a novel": {func() error {
			_, err := s.ChangeIntegration(t.Context(), novelID, principal.Change{Review: new(true)})
			return err
		}, principal.ErrNotFound},
		"hiding a novel": {
			func() error { _, err := s.HidePost(t.Context(), novelID, "r"); return err }, post.ErrNotFound,
		},
		"showing a novel as post": {func() error { _, err := s.Post(t.Context(), novelID); return err }, post.ErrNotFound},
		"publish integration": {
			func() error { _, err := s.PublishByID(t.Context(), made.ID, "r"); return err }, staff.ErrNoSuchNovel,
		},
		"approve integration": {
			func() error { _, err := s.ApproveByID(t.Context(), made.ID, "r"); return err }, staff.ErrNoSuchNovel,
		},
		"reject integration": {
			func() error { _, err := s.RejectByID(t.Context(), made.ID, "r"); return err }, staff.ErrNoSuchNovel,
		},
		"edit integration": {func() error {
			_, err := s.EditNovel(t.Context(), made.ID, novel.Fields{Author: new("A")}, "r")
			return err
		}, staff.ErrNoSuchNovel},
	} {
		if err := tc.do(); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
	}
	if after := stored(); after != before {
		t.Errorf("%d events were stored", after-before)
	}
}

// TestLongNovel: a partner who updates a novel all the time keeps staff from nothing, and its history has an end.
func TestLongNovel(t *testing.T) {
	t.Parallel()
	s := setup(t)
	const updates = 1500
	id := imported(t, s, "Genji", novel.Approved)
	update(t, s, id, 2, updates)
	var read rows
	config := s.Pool.Config()
	config.ConnConfig.Tracer = &read
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	traced := &staff.Staff{Pool: pool, Actor: s.Actor, Now: s.Now}
	if n, err := traced.RejectByID(t.Context(), id, "spam"); err != nil || n.State != novel.Rejected {
		t.Fatalf("%+v, %v", n, err)
	}
	if n := read.n.Load(); n > 20 || n == 0 {
		t.Errorf("%d rows were read for one decision", n)
	}
	history, err := s.NovelHistory(t.Context(), id)
	if err != nil || len(history) != 1000 || history[999].Type != "novel.rejected.v1" ||
		history[0].Version != updates+2-999 {
		t.Errorf("the history has %d events, the first is %+v, %v", len(history), history[0], err)
	}
	if n, err := s.ApproveByID(t.Context(), id, "no spam"); err != nil || n.Author != fmt.Sprint("author ", updates+1) {
		t.Errorf("after the updates: %+v, %v", n, err)
	}
}

// update appends a partner's updates of a novel.
func update(t *testing.T, s *staff.Staff, id uuid.UUID, version, count int) {
	t.Helper()
	recorded := make([]events.Recorded, count)
	for i := range recorded {
		recorded[i] = events.Recorded{
			StreamType: events.NovelStream, StreamID: id, StreamVersion: version + i, ID: fmt.Sprint("update ", version+i),
			Source: events.NovelsSource(partner),
			Event:  events.NovelUpdated{Author: new(fmt.Sprint("author ", version+i))},
		}
	}
	appendAll(t, s, recorded...)
}

// rows counts those that a pool reads one statement at a time.
type rows struct{ n atomic.Int64 }

// TraceQueryStart implements pgx.QueryTracer.
func (*rows) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (r *rows) TraceQueryEnd(_ context.Context, _ *pgx.Conn, data pgx.TraceQueryEndData) {
	r.n.Add(data.CommandTag.RowsAffected())
}
