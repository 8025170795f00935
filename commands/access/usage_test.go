package access_test

import (
	"testing"
	"time"

	"novelgate/commands/staff"
)

func TestUsageIsWrittenDown(t *testing.T) {
	t.Parallel()
	eachHolder(t, wantUsageWrittenDown)
}

func wantUsageWrittenDown(t *testing.T, b *bundle, h holder) {
	secret, _ := h.issue(t, 0)
	lastUsed := func() *time.Time { return h.lastUsed(t) }
	use := func() {
		t.Helper()
		if err := h.authenticate(t.Context(), secret.Reveal()); err != nil {
			t.Fatal(err)
		}
	}
	save := func() {
		t.Helper()
		if err := b.keys.SaveUsage(t.Context()); err != nil {
			t.Fatal(err)
		}
	}

	save()
	if got := lastUsed(); got != nil {
		t.Errorf("never used, and yet last used at %s", got)
	}
	for _, after := range []time.Duration{0, time.Minute, time.Hour} {
		b.clock.advance(after)
		use()
		save()
		if got := lastUsed(); got == nil || !got.Equal(b.clock.Now()) {
			t.Errorf("last used at %v, want %s", got, b.clock.Now())
		}
	}
	b.clock.advance(-30 * time.Minute) // another replica, whose news come late
	use()
	save()
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
	if err := b.keys.SaveUsage(t.Context()); err != nil {
		t.Fatal(err)
	}
	keys, err := b.staff.ListKeys(t.Context(), b.integration.ID, staff.Place{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if keys[0].LastUsedAt != nil {
		t.Errorf("last used at %s", keys[0].LastUsedAt)
	}
}

func TestFailedSaveIsReported(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, secret := b.issue(t, 0)
	if _, err := b.keys.Authenticate(t.Context(), secret.Reveal()); err != nil {
		t.Fatal(err)
	}
	b.pool.Close()
	if err := b.keys.SaveUsage(t.Context()); err == nil {
		t.Error("no error")
	}
	if err := b.keys.SaveUsage(t.Context()); err != nil {
		t.Errorf("what could not be saved is forgotten: %v", err)
	}
}
