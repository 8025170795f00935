package staff_test

import (
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
		case events.KeyExpiring:
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
	var replicas sync.WaitGroup
	for range 4 {
		replicas.Go(func() {
			if err := s.AnnounceDue(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	replicas.Wait()
	want := []events.Event{
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
