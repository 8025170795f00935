package access_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"novelgate/aggregates/person"
	"novelgate/commands/access"
	"novelgate/events"
	"novelgate/internal/apikey"
)

func TestAuthenticatePerson(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, role := range []string{person.Staff, person.Auditor} {
		key, secret := b.issuePerson(t, role, 0)
		got, err := b.keys.AuthenticatePerson(t.Context(), secret.Reveal())
		if err != nil {
			t.Fatal(err)
		}
		want := &access.Person{KeyID: key.ID, PersonID: events.PersonID(role, "Ada"), Role: role, Name: "Ada"}
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
	_, staffKey := b.issuePerson(t, person.Staff, 0)
	_, auditorKey := b.issuePerson(t, person.Auditor, 0)
	for range 2 {
		for _, key := range []apikey.Secret{staffKey, auditorKey} {
			if got, err := b.keys.Authenticate(t.Context(), key.Reveal()); got != nil || !errors.Is(err, access.ErrMalformed) {
				t.Errorf("%s on the partners' side: %+v, %v", key, got, err)
			}
			if _, err := b.keys.AuthenticatePerson(t.Context(), key.Reveal()); err != nil {
				t.Errorf("%s: %v", key, err)
			}
		}
		if got, err := b.keys.AuthenticatePerson(t.Context(), partner.Reveal()); got != nil ||
			!errors.Is(err, access.ErrMalformed) {
			t.Errorf("a partner on the persons' side: %+v, %v", got, err)
		}
		if _, err := b.keys.Authenticate(t.Context(), partner.Reveal()); err != nil {
			t.Errorf("a partner: %v", err)
		}
	}
}

// TestMalformedPersonKeysNeverReachTheDatabase: there is none to reach.
func TestMalformedPersonKeysNeverReachTheDatabase(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, secret := b.issuePerson(t, person.Staff, 0)
	b.pool.Close()
	good := secret.Reveal()
	flipped := []byte(good)
	flipped[10] ^= 1
	for name, key := range map[string]string{
		"empty": "", "one character off": string(flipped), "cut off": good[:len(good)-1], "too long": good + "0",
		"space before it": " " + good,
		"upper case":      strings.ToUpper(good), "kind exchanged": "nga" + good[3:], "another scheme": "ngx" + good[3:],
	} {
		if _, err := b.keys.AuthenticatePerson(t.Context(), key); !errors.Is(err, access.ErrMalformed) {
			t.Errorf("%s: %v, want ErrMalformed", name, err)
		}
	}
	_, err := b.keys.AuthenticatePerson(t.Context(), good)
	for _, refusal := range []error{nil, access.ErrMalformed, access.ErrUnknown, access.ErrExpired} {
		if errors.Is(err, refusal) {
			t.Errorf("a good key without a database: %v; it must not look like a refusal", err)
		}
	}
}

func TestUnknownPersonKey(t *testing.T) {
	t.Parallel()
	b := setup(t)
	stranger, err := apikey.New(apikey.Staff)
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if got, err := b.keys.AuthenticatePerson(t.Context(), stranger.Reveal()); got != nil ||
			!errors.Is(err, access.ErrUnknown) {
			t.Errorf("got %+v, %v, want ErrUnknown", got, err)
		}
	}
	if got := b.queries.count.Load(); got != 1 {
		t.Errorf("%d queries for one unknown key, want 1", got)
	}
}

func TestPersonKeyExpires(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, secret := b.issuePerson(t, person.Auditor, 10*time.Second)
	for _, step := range []struct {
		after   time.Duration
		refusal error
	}{{0, nil}, {9999 * time.Millisecond, nil}, {time.Millisecond, access.ErrExpired}, {time.Hour, access.ErrExpired}} {
		b.clock.advance(step.after)
		if got, err := b.keys.AuthenticatePerson(t.Context(), secret.Reveal()); !errors.Is(err, step.refusal) ||
			(got == nil) != (err != nil) {
			t.Errorf("at %s: %+v, %v, want %v", b.clock.Now(), got, err, step.refusal)
		}
	}
}

// TestPersonKeyRevocation holds within a second, and at once after Forget.
func TestPersonKeyRevocation(t *testing.T) {
	t.Parallel()
	for name, pass := range map[string]func(*bundle){
		"a second later": func(b *bundle) { b.clock.advance(time.Second) },
		"after Forget":   func(b *bundle) { b.keys.Forget() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			key, secret := b.issuePerson(t, person.Staff, 0)
			if _, err := b.keys.AuthenticatePerson(t.Context(), secret.Reveal()); err != nil {
				t.Fatal(err)
			}
			if _, err := b.staff.RevokePersonKey(t.Context(), key.ID, "left"); err != nil {
				t.Fatal(err)
			}
			pass(b)
			if _, err := b.keys.AuthenticatePerson(t.Context(), secret.Reveal()); !errors.Is(err, access.ErrUnknown) {
				t.Errorf("got %v, want ErrUnknown", err)
			}
		})
	}
}

func TestRequestsOfAPersonShareALookUp(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, secret := b.issuePerson(t, person.Staff, 0)
	h := b.queries.holdNext()
	var wg sync.WaitGroup
	authenticate := func() {
		if _, err := b.keys.AuthenticatePerson(context.WithoutCancel(t.Context()), secret.Reveal()); err != nil {
			t.Error(err)
		}
	}
	wg.Go(authenticate)
	<-h.answered
	for range 20 {
		wg.Go(authenticate)
	}
	close(h.release)
	wg.Wait()
	authenticate() // remembered
	if got := b.queries.count.Load(); got != 1 {
		t.Errorf("%d queries, want 1", got)
	}
}

func TestUsageOfPersonKeysIsWrittenDown(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, secret := b.issuePerson(t, person.Staff, 0)
	b.clock.advance(time.Minute)
	if _, err := b.keys.AuthenticatePerson(t.Context(), secret.Reveal()); err != nil {
		t.Fatal(err)
	}
	if err := b.keys.SaveUsage(t.Context()); err != nil {
		t.Fatal(err)
	}
	keys, err := b.staff.PersonKeys(t.Context(), "")
	if err != nil || len(keys) != 1 || keys[0].LastUsedAt == nil || !keys[0].LastUsedAt.Equal(b.clock.Now()) {
		t.Errorf("keys %+v, %v", keys, err)
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
