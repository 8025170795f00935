package access_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"novelgate/aggregates/principal"
	"novelgate/commands/access"
	"novelgate/events"
	"novelgate/internal/apikey"
)

func TestAuthenticateStaffUser(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, role := range []string{principal.Staff, principal.Auditor} {
		key, secret := b.issuePerson(t, role, 0)
		got, err := b.keys.AuthenticateStaffUser(t.Context(), secret.Reveal())
		if err != nil {
			t.Fatal(err)
		}
		want := &access.StaffUser{KeyID: key.ID, ID: events.PersonID(role, "Ada"), Role: role, Name: "Ada"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", role, diff)
		}
	}
}

// TestKeysOpenTheirSideOnly: whatever is remembered of them, they open the other side neither before nor after.
func TestKeysOpenTheirSideOnly(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, partner := b.issue(t, 0)
	_, staffKey := b.issuePerson(t, principal.Staff, 0)
	_, auditorKey := b.issuePerson(t, principal.Auditor, 0)
	for range 2 {
		for _, key := range []apikey.Secret{staffKey, auditorKey} {
			if got, err := b.keys.Authenticate(t.Context(), key.Reveal()); got != nil || !errors.Is(err, access.ErrMalformed) {
				t.Errorf("%s on the partners' side: %+v, %v", key, got, err)
			}
			if _, err := b.keys.AuthenticateStaffUser(t.Context(), key.Reveal()); err != nil {
				t.Errorf("%s: %v", key, err)
			}
		}
		if got, err := b.keys.AuthenticateStaffUser(t.Context(), partner.Reveal()); got != nil ||
			!errors.Is(err, access.ErrMalformed) {
			t.Errorf("a partner on the side of staff users: %+v, %v", got, err)
		}
		if _, err := b.keys.Authenticate(t.Context(), partner.Reveal()); err != nil {
			t.Errorf("a partner: %v", err)
		}
	}
}

// TestAKeyThatIsRememberedCostsNoMemory beyond what parsing it takes.
func TestAKeyThatIsRememberedCostsNoMemory(t *testing.T) {
	b := setup(t)
	_, secret := b.issue(t, 0)
	key := secret.Reveal()
	parsing := testing.AllocsPerRun(100, func() { _, _ = apikey.Parse(key) })
	ctx := t.Context()
	got := testing.AllocsPerRun(1000, func() { _, _ = b.keys.Authenticate(ctx, key) })
	if got > parsing+1 { // and its hash
		t.Errorf("%v allocations, parsing has %v", got, parsing)
	}
}
