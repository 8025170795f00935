package auth_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"novelgate/aggregates/principal"
	"novelgate/events"
	"novelgate/internal/auth"
	"novelgate/internal/testdb"
)

func TestAuthenticate(t *testing.T) {
	t.Parallel()
	b := setup(t)
	key, secret := b.issue(t, time.Hour)
	got := testdb.Must(b.keys.Authenticate(t.Context(), secret.Reveal()))(t)
	want := &auth.Integration{
		KeyID: key.ID, KeyExpiresAt: key.ExpiresAt, IntegrationID: b.integration.ID, Name: "Partner", Enabled: true,
		CanPost:        true,
		PostsPerMinute: 7, NovelsPerMinute: 8, LinesPerMinute: 60_000, Review: true,
		AuthorKey: testdb.AuthorKey(b.integration.ID),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestMalformedKeysNeverReachTheDatabase: malformed keys are refused although the pool is closed.
func TestMalformedKeysNeverReachTheDatabase(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, secret := b.issue(t, 0)
	b.pool.Close()
	good := secret.Reveal()
	flipped := []byte(good)
	flipped[10] ^= 1
	for name, key := range map[string]string{
		"empty": "", "one character off": string(flipped), "cut off": good[:len(good)-1], "too long": good + "0",
		"space before it": " " + good, "upper case": strings.ToUpper(good), "another scheme": "ngx" + good[3:],
		"megabytes": strings.Repeat(good, 100_000), "NUL": good[:20] + "\x00" + good[21:],
	} {
		if _, err := b.keys.Authenticate(t.Context(), key); !errors.Is(err, auth.ErrMalformed) {
			t.Errorf("%s: %v, want ErrMalformed", name, err)
		}
	}
	_, err := b.keys.Authenticate(t.Context(), good)
	for _, refusal := range []error{nil, auth.ErrMalformed, auth.ErrUnknown, auth.ErrExpired} {
		if errors.Is(err, refusal) {
			t.Errorf("a good key without a database: %v; it must not look like a refusal", err)
		}
	}
}

func TestUnknownKey(t *testing.T) {
	t.Parallel()
	b := setup(t)
	stranger := auth.NewKey(auth.PartnerKey)
	for range 5 {
		b.want(t, stranger, auth.ErrUnknown)
	}
	if got := b.queries.count.Load(); got != 1 {
		t.Errorf("%d queries for one unknown key, want 1", got)
	}
}

func TestAnswersAreRememberedForAMoment(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, secret := b.issue(t, 0)
	for range 10 {
		for range 10 {
			b.want(t, secret, nil)
		}
		b.clock.advance(100 * time.Millisecond)
	}
	if got := b.queries.count.Load(); got < 1 || got > 3 {
		t.Errorf("%d queries in a second, want 1 to 3", got)
	}
}

func TestRevocationHoldsWithinASecond(t *testing.T) {
	t.Parallel()
	b := setup(t)
	key, secret := b.issue(t, 0)
	b.want(t, secret, nil)
	b.revoke(t, key)
	b.clock.advance(time.Second)
	b.want(t, secret, auth.ErrUnknown)
}

func TestSettingsHoldWithinASecond(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, secret := b.issue(t, 0)
	b.want(t, secret, nil)
	change := principal.Change{
		Enabled:      new(false),
		Capabilities: map[principal.Capability]bool{principal.Posts: false, principal.Novels: true},
	}
	testdb.Must(b.staff.ChangeIntegration(t.Context(), b.integration.ID, change))(t)
	b.clock.advance(time.Second)
	got, err := b.keys.Authenticate(t.Context(), secret.Reveal())
	if err != nil {
		t.Fatal(err) // a disabled integration is authenticated; the routes refuse it
	}
	if got.Enabled || got.CanPost || !got.CanCreateNovels {
		t.Errorf("got %+v", got)
	}
}

func TestWaitingRequestsShareALookUp(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, secret := b.issue(t, 0)
	h := b.queries.holdNext()
	first, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := b.keys.Authenticate(first, secret.Reveal())
		left <- err
	}()
	<-h.answered
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			b.want(t, secret, nil)
		})
	}
	leave() // the request that began the look-up is cancelled; the others must not fail
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("the one that left: %v", err)
	}
	close(h.release)
	wg.Wait()
	// The one that is held, one for those that wait, and more for those that were held up before they began to wait.
	if got := b.queries.count.Load(); got > 10 {
		t.Errorf("%d queries for 21 requests", got)
	}
}

func TestExpiry(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, secret := b.issue(t, 10*time.Second)
	for _, step := range []struct {
		after   time.Duration
		refusal error
	}{
		{0, nil},
		{9900 * time.Millisecond, nil},
		{99 * time.Millisecond, nil},
		{time.Millisecond, auth.ErrExpired}, // cached for 100 ms, and still refused as expired
		{time.Hour, auth.ErrExpired},
	} {
		b.clock.advance(step.after)
		b.want(t, secret, step.refusal)
	}
}

// TestGuessedKeysLeaveConnectionsFree: while two look-ups hang, a third waits without a connection of the pool.
func TestGuessedKeysLeaveConnectionsFree(t *testing.T) {
	t.Parallel()
	b := setup(t)
	guess := func(ctx context.Context) error {
		_, err := b.keys.Authenticate(ctx, auth.NewKey(auth.PartnerKey).Reveal())
		return err
	}
	var hanging sync.WaitGroup
	var holds []*held
	for range auth.MaxStatements {
		h := b.queries.holdNext()
		holds = append(holds, h)
		hanging.Go(func() {
			if err := guess(t.Context()); !errors.Is(err, auth.ErrUnknown) {
				t.Errorf("a guessed key: %v", err)
			}
		})
		<-h.answered
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := guess(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("one more: %v", err)
	}
	if got := b.pool.Stat().AcquiredConns(); got != auth.MaxStatements {
		t.Errorf("%d connections are taken", got)
	}
	for _, h := range holds {
		close(h.release)
	}
	hanging.Wait()
	b.want(t, auth.NewKey(auth.PartnerKey), auth.ErrUnknown)
}

// TestAuthenticateStaffUser: the keys of staff and auditors expire, are revoked, and are recorded as used, as those of
// integrations are.
func TestAuthenticateStaffUser(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, role := range []string{principal.Staff, principal.Auditor} {
		key, secret := b.issueUser(t, role, 0)
		_, short := b.issueUser(t, role, time.Millisecond)
		got := testdb.Must(b.keys.AuthenticateStaffUser(t.Context(), secret.Reveal()))(t)
		want := &auth.StaffUser{KeyID: key.ID, ID: events.PersonID(role, "Ada"), Role: role, Name: "Ada"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", role, diff)
		}
		b.saveUsage(t)
		revoked := testdb.Must(b.staff.RevokeUserKey(t.Context(), key.ID, "left"))(t)
		if at := revoked.LastUsedAt; at == nil || !at.Equal(b.clock.Now()) {
			t.Errorf("%s: last used at %v", role, at)
		}
		b.clock.advance(time.Second)
		for secret, want := range map[string]error{secret.Reveal(): auth.ErrUnknown, short.Reveal(): auth.ErrExpired} {
			if _, err := b.keys.AuthenticateStaffUser(t.Context(), secret); !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", role, err, want)
			}
		}
	}
}

// TestKeysOpenTheirSideOnly: a key of an integration does not authenticate a staff user, nor the reverse, whatever is
// cached.
func TestKeysOpenTheirSideOnly(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, partner := b.issue(t, 0)
	_, staffKey := b.issueUser(t, principal.Staff, 0)
	_, auditorKey := b.issueUser(t, principal.Auditor, 0)
	for range 2 {
		for _, key := range []auth.Secret{staffKey, auditorKey} {
			if got, err := b.keys.Authenticate(t.Context(), key.Reveal()); got != nil || !errors.Is(err, auth.ErrMalformed) {
				t.Errorf("%s on the partners' side: %+v, %v", key, got, err)
			}
			if _, err := b.keys.AuthenticateStaffUser(t.Context(), key.Reveal()); err != nil {
				t.Errorf("%s: %v", key, err)
			}
		}
		if got, err := b.keys.AuthenticateStaffUser(t.Context(), partner.Reveal()); got != nil ||
			!errors.Is(err, auth.ErrMalformed) {
			t.Errorf("a partner on the side of staff users: %+v, %v", got, err)
		}
		b.want(t, partner, nil)
	}
}

func TestUsageIsWrittenDown(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, secret := b.issue(t, 0)
	lastUsed := func() *time.Time {
		b.saveUsage(t)
		return testdb.Must(b.staff.ListKeys(t.Context(), b.integration.ID, uuid.Nil, 0))(t)[0].LastUsedAt
	}
	if got := lastUsed(); got != nil {
		t.Errorf("never used, and yet last used at %s", got)
	}
	for _, after := range []time.Duration{0, time.Minute, time.Hour} {
		b.clock.advance(after)
		b.want(t, secret, nil)
		if got := lastUsed(); got == nil || !got.Equal(b.clock.Now()) {
			t.Errorf("last used at %v, want %s", got, b.clock.Now())
		}
	}
	b.clock.advance(-30 * time.Minute) // another replica with a slow clock
	b.want(t, secret, nil)
	if got := lastUsed(); got == nil || !got.Equal(b.clock.Now().Add(30*time.Minute)) {
		t.Errorf("set back to %v", got)
	}
}

func TestRefusedKeysAreNotUsed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, secret := b.issue(t, time.Minute)
	b.clock.advance(time.Hour)
	if _, err := b.keys.Authenticate(t.Context(), secret.Reveal()); err == nil {
		t.Fatal("an expired key was accepted")
	}
	b.saveUsage(t)
	keys := testdb.Must(b.staff.ListKeys(t.Context(), b.integration.ID, uuid.Nil, 0))(t)
	if keys[0].LastUsedAt != nil {
		t.Errorf("last used at %s", keys[0].LastUsedAt)
	}
}

func TestFailedSaveIsReported(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, secret := b.issue(t, 0)
	b.want(t, secret, nil)
	b.pool.Close()
	if err := b.keys.SaveUsage(t.Context()); err == nil {
		t.Error("no error")
	}
	if err := b.keys.SaveUsage(t.Context()); err != nil {
		t.Errorf("what could not be saved is forgotten: %v", err)
	}
}
