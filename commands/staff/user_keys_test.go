package staff_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/aggregates/principal"
	"novelgate/commands/access"
	"novelgate/commands/staff"
	"novelgate/events"
	"novelgate/internal/apikey"
)

func TestIssueUserKey(t *testing.T) {
	t.Parallel()
	s := setup(t)
	for _, c := range []struct {
		role, name string
		lifetime   time.Duration
		expiresAt  *time.Time
		kind       apikey.Kind
	}{
		{principal.Staff, "Ada", 0, nil, apikey.Staff},
		{principal.Staff, "  Ada ", time.Hour, new(noon.Add(time.Hour)), apikey.Staff},
		{principal.Auditor, "Ada", 0, nil, apikey.Auditor},
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

func TestIssueUserKeyRefusals(t *testing.T) {
	t.Parallel()
	s := setup(t)
	for name, c := range map[string]struct {
		role, name string
		lifetime   time.Duration
		want       error
	}{
		"no such role": {"partner", "Ada", 0, principal.ErrRole},
		"no role":      {"", "Ada", 0, principal.ErrRole},
		"no name":      {principal.Staff, " \t", 0, principal.ErrNameInvalid},
		"long name":    {principal.Staff, strings.Repeat("é", 101), 0, principal.ErrNameInvalid},
		"expired":      {principal.Auditor, "Ada", -time.Second, principal.ErrExpiryPassed},
	} {
		if _, secret, err := s.IssueUserKey(t.Context(), c.role, c.name, c.lifetime); !errors.Is(err, c.want) ||
			secret.Reveal() != "" {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if keys, err := s.UserKeys(t.Context(), ""); err != nil || len(keys) != 0 {
		t.Errorf("keys %+v, %v", keys, err)
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
	got, err := s.RevokeUserKey(t.Context(), key.ID, "left")
	if err != nil {
		t.Fatal(err)
	}
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

// TestPersonKeysAreAnnounced to the replicas that remember who a key belongs to.
func TestPersonKeysAreAnnounced(t *testing.T) {
	t.Parallel()
	s := setup(t)
	conn, err := pgx.Connect(t.Context(), s.Pool.Config().ConnString())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	if _, err := conn.Exec(t.Context(), "LISTEN "+access.Channel); err != nil {
		t.Fatal(err)
	}
	heard := func(what string) {
		t.Helper()
		n, err := conn.WaitForNotification(t.Context())
		if err != nil || n.Channel != access.Channel {
			t.Fatalf("%s: %v, %v", what, n, err)
		}
	}
	key, _, err := s.IssueUserKey(t.Context(), principal.Staff, "Ada", 0)
	if err != nil {
		t.Fatal(err)
	}
	heard("issued")
	if _, err := s.RevokeUserKey(t.Context(), key.ID, ""); err != nil {
		t.Fatal(err)
	}
	heard("revoked")
}
