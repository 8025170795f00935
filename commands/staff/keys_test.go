package staff_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"novelgate/aggregates/principal"
	"novelgate/commands/staff"
	"novelgate/events"
)

func TestIssueKey(t *testing.T) {
	t.Parallel()
	s := setup(t)
	id := newIntegration(t, s, "Partner")
	for _, c := range []struct {
		lifetime  time.Duration
		expiresAt *time.Time
	}{{0, nil}, {time.Hour, new(noon.Add(time.Hour))}} {
		key, secret, err := s.IssueKey(t.Context(), id, c.lifetime)
		if err != nil {
			t.Fatal(err)
		}
		want := staff.Key{ID: key.ID, IntegrationID: id, Prefix: secret.Reveal()[:8], CreatedAt: noon, ExpiresAt: c.expiresAt}
		key.CreatedAt = key.CreatedAt.UTC()
		if key.ExpiresAt != nil {
			key.ExpiresAt = new(key.ExpiresAt.UTC())
		}
		if diff := cmp.Diff(want, key); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

func TestIssueKeyRefusals(t *testing.T) {
	t.Parallel()
	s := setup(t)
	if _, _, err := s.IssueKey(t.Context(), uuid.New(), 0); !errors.Is(err, principal.ErrNotFound) {
		t.Errorf("for nobody: %v", err)
	}
	id := newIntegration(t, s, "Partner")
	if _, _, err := s.IssueKey(t.Context(), id, -time.Second); !errors.Is(err, principal.ErrExpiryPassed) {
		t.Errorf("expired: %v", err)
	}
	if keys, err := s.ListKeys(t.Context(), id, staff.Place{}, 0); err != nil || len(keys) != 0 {
		t.Errorf("keys %+v, %v", keys, err)
	}
}

func TestRevokeKey(t *testing.T) {
	t.Parallel()
	s := setup(t)
	id := newIntegration(t, s, "Partner")
	key, _, err := s.IssueKey(t.Context(), id, 0)
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.RevokeKey(t.Context(), key.ID, "leaked")
	if err != nil {
		t.Fatal(err)
	}
	if got.RevokedAt == nil || !got.RevokedAt.Equal(noon) {
		t.Errorf("revoked at %v", got.RevokedAt)
	}
	if _, err := s.RevokeKey(t.Context(), key.ID, "again"); !errors.Is(err, principal.ErrKeyRevoked) {
		t.Errorf("a second time: %v", err)
	}
	if _, err := s.RevokeKey(t.Context(), uuid.New(), ""); !errors.Is(err, principal.ErrKeyNotFound) {
		t.Errorf("an unknown one: %v", err)
	}
	list := stream(t, s, id)
	if diff := cmp.Diff(events.Event(events.KeyRevoked{KeyID: key.ID, Reason: "leaked", RevokedAt: noon}),
		list[len(list)-1]); diff != "" {
		t.Errorf("last event (-want +got):\n%s", diff)
	}
}

func TestOneRevocationWins(t *testing.T) {
	t.Parallel()
	s := setup(t)
	id := newIntegration(t, s, "Partner")
	key, _, err := s.IssueKey(t.Context(), id, 0)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	outcomes := make([]error, 5)
	for i := range outcomes {
		wg.Go(func() { _, outcomes[i] = s.RevokeKey(t.Context(), key.ID, "") })
	}
	wg.Wait()
	done := 0
	for _, err := range outcomes {
		if err == nil {
			done++
		} else if !errors.Is(err, principal.ErrKeyRevoked) {
			t.Errorf("got %v", err)
		}
	}
	if done != 1 || len(stream(t, s, id)) != 3 {
		t.Errorf("revoked %d times, %d events", done, len(stream(t, s, id)))
	}
}

func TestKeysAreListed(t *testing.T) {
	t.Parallel()
	s := setup(t)
	now := noon
	s.Now = func() time.Time { return now }
	one, two := newIntegration(t, s, "One"), newIntegration(t, s, "Two")
	var issued []uuid.UUID
	for _, owner := range []uuid.UUID{one, two, one} {
		now = now.Add(time.Second)
		key, _, err := s.IssueKey(t.Context(), owner, 0)
		if err != nil {
			t.Fatal(err)
		}
		issued = append(issued, key.ID)
	}
	for name, c := range map[string]struct {
		owner uuid.UUID
		want  []uuid.UUID
	}{
		"all": {uuid.Nil, issued}, "one": {one, []uuid.UUID{issued[0], issued[2]}}, "two": {two, issued[1:2]},
		"nobody's": {uuid.New(), nil},
	} {
		keys, err := s.ListKeys(t.Context(), c.owner, staff.Place{}, 0)
		if err != nil {
			t.Fatal(err)
		}
		var got []uuid.UUID
		for _, key := range keys {
			got = append(got, key.ID)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
