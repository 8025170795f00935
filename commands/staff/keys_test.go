package staff_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"novelgate/aggregates/principal"
	"novelgate/commands/staff"
	"novelgate/events"
	"novelgate/internal/auth"
	"novelgate/internal/testdb"
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

func TestRevokeKey(t *testing.T) {
	t.Parallel()
	s := setup(t)
	id := newIntegration(t, s, "Partner")
	key, _, err := s.IssueKey(t.Context(), id, 0)
	if err != nil {
		t.Fatal(err)
	}
	got := testdb.Must(s.RevokeKey(t.Context(), key.ID, "leaked"))(t)
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

func TestIssueUserKey(t *testing.T) {
	t.Parallel()
	s := setup(t)
	for _, c := range []struct {
		role, name string
		lifetime   time.Duration
		expiresAt  *time.Time
		kind       auth.Kind
	}{
		{principal.Staff, "Ada", 0, nil, auth.StaffKey},
		{principal.Staff, "  Ada ", time.Hour, new(noon.Add(time.Hour)), auth.StaffKey},
		{principal.Auditor, "Ada", 0, nil, auth.AuditorKey},
	} {
		key, secret, err := s.IssueUserKey(t.Context(), c.role, c.name, c.lifetime)
		if err != nil {
			t.Fatal(err)
		}
		if secret.Kind() != c.kind {
			t.Errorf("%s: a key of kind %s", c.role, secret.Kind())
		}
		want := staff.UserKey{
			ID: key.ID, Role: c.role, Name: "Ada", Prefix: secret.Reveal()[:8], CreatedAt: noon, ExpiresAt: c.expiresAt,
		}
		key.CreatedAt = key.CreatedAt.UTC()
		if key.ExpiresAt != nil {
			key.ExpiresAt = new(key.ExpiresAt.UTC())
		}
		if diff := cmp.Diff(want, key, cmpopts.IgnoreUnexported(staff.UserKey{})); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	if n := len(stream(t, s, events.PersonID(principal.Staff, "ada"))); n != 2 {
		t.Errorf("%d events of Ada of the staff, want 2", n)
	}
}

func TestRevokeUserKey(t *testing.T) {
	t.Parallel()
	s := setup(t)
	key, _, err := s.IssueUserKey(t.Context(), principal.Auditor, "Ada", 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.RevokeUserKey(t.Context(), key.ID, "le\x00ft"); !errors.Is(err, staff.ErrReasonInvalid) {
		t.Errorf("a reason that cannot be stored: %v", err)
	}
	got := testdb.Must(s.RevokeUserKey(t.Context(), key.ID, "left"))(t)
	if got.RevokedAt == nil || !got.RevokedAt.Equal(noon) || got.Usable(noon) {
		t.Errorf("revoked at %v", got.RevokedAt)
	}
	if _, err := s.RevokeUserKey(t.Context(), key.ID, "again"); !errors.Is(err, principal.ErrKeyRevoked) {
		t.Errorf("a second time: %v", err)
	}
	if _, err := s.RevokeUserKey(t.Context(), uuid.New(), ""); !errors.Is(err, principal.ErrKeyNotFound) {
		t.Errorf("an unknown one: %v", err)
	}
	partnerKey, _, err := s.IssueKey(t.Context(), newIntegration(t, s, "Partner"), 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.RevokeUserKey(t.Context(), partnerKey.ID, ""); !errors.Is(err, principal.ErrKeyNotFound) {
		t.Errorf("a partner's: %v", err)
	}
	list := stream(t, s, events.PersonID(principal.Auditor, "Ada"))
	if diff := cmp.Diff(events.Event(events.PersonKeyRevoked{KeyID: key.ID, Reason: "left", RevokedAt: noon}),
		list[len(list)-1]); diff != "" {
		t.Errorf("last event (-want +got):\n%s", diff)
	}
}
