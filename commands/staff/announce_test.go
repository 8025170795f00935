package staff_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"novelgate/aggregates/principal"
	"novelgate/commands/staff"
	"novelgate/events"
	"novelgate/internal/testdb"
)

// announced returns the announcements in the stream of an integration.
func announced(t *testing.T, s *staff.Staff, id uuid.UUID) (list []events.Event) {
	t.Helper()
	for _, e := range stream(t, s, id) {
		switch e.(type) {
		case events.KeyExpiring, events.ImportCompleted:
			list = append(list, e)
		default: // something else
		}
	}
	return list
}

// TestAnnouncements: concurrent replicas append each announcement once; a key with a new expiry is announced again.
func TestAnnouncements(t *testing.T) {
	t.Parallel()
	s := setup(t)
	i := testdb.Must(s.CreateIntegration(t.Context(), "Acme", principal.Change{}))(t)
	id := i.ID
	soon, _, err := s.IssueKey(t.Context(), id, 6*24*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for _, lifetime := range []time.Duration{0, 8 * 24 * time.Hour} {
		if _, _, err := s.IssueKey(t.Context(), id, lifetime); err != nil {
			t.Fatal(err)
		}
	}
	done, open := uuid.New(), uuid.New()
	testdb.Exec(t, s.Pool, `INSERT INTO imports (import_id, integration_id, idempotency_key, key_id, state, lines,
    created, failed, ended_at)
VALUES ($1, $3, 'a', $4, 'completed', 5, 3, 2, now()), ($2, $3, 'b', $4, 'open', 9, 0, 0, NULL)`, done, open, id, soon.ID)
	var replicas sync.WaitGroup
	for range 4 {
		replicas.Go(func() {
			if err := s.AnnounceDue(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	replicas.Wait()
	// A replica died before it could note it.
	testdb.Exec(t, s.Pool, `UPDATE imports SET announced = false WHERE announced`)
	if err := s.AnnounceDue(t.Context()); err != nil {
		t.Error(err)
	}
	var noted []uuid.UUID
	if err := s.Pool.QueryRow(t.Context(), `SELECT array_agg(import_id) FROM imports WHERE announced`).Scan(&noted); err != nil ||
		!slices.Equal(noted, []uuid.UUID{done}) {
		t.Errorf("announced: %v, %v", noted, err)
	}
	want := []events.Event{
		events.ImportCompleted{ImportID: done, Lines: 5, Created: 3, Failed: 2},
		events.KeyExpiring{KeyID: soon.ID, ExpiresAt: noon.Add(6 * 24 * time.Hour)},
	}
	if diff := cmp.Diff(want, announced(t, s, id)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}

	if _, _, err := s.RotateKey(t.Context(), soon.ID, time.Hour); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.AnnounceDue(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	want = append(want, events.KeyExpiring{KeyID: soon.ID, ExpiresAt: noon.Add(time.Hour)})
	if diff := cmp.Diff(want, announced(t, s, id)); diff != "" {
		t.Errorf("after a rotation (-want +got)\n%s", diff)
	}

	testdb.Must(s.RevokeKey(t.Context(), soon.ID, ""))(t)
	if err := s.AnnounceDue(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, announced(t, s, id)); diff != "" {
		t.Errorf("of a revoked key (-want +got)\n%s", diff)
	}
}
