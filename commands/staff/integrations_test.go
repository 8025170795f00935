package staff_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"novelgate/aggregates/novel"
	"novelgate/aggregates/principal"
	"novelgate/commands/access"
	"novelgate/commands/staff"
	"novelgate/events"
	"novelgate/events/eventlog"
)

func TestCreateIntegration(t *testing.T) {
	t.Parallel()
	s := setup(t)
	got, err := s.CreateIntegration(t.Context(), " Partner ", principal.Change{
		Capabilities:   map[principal.Capability]bool{principal.Novels: true, principal.Posts: true},
		PostsPerMinute: new(600), Review: new(true),
	})
	if err != nil {
		t.Fatal(err)
	}
	want := staff.Integration{
		ID: got.ID, Name: "Partner", Enabled: true, Capabilities: []string{"novels", "posts"}, PostsPerMinute: 600,
		NovelsPerMinute: 60,
		Review:          true, CreatedAt: noon,
	}
	got.CreatedAt = got.CreatedAt.UTC()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, handle := range []string{got.ID.String(), "Partner", "PARTNER"} {
		if found, err := s.Integration(t.Context(), handle); err != nil || found.ID != got.ID {
			t.Errorf("%s found %s, %v", handle, found.ID, err)
		}
	}
	recorded, err := eventlog.ReadStream(t.Context(), s.Pool, events.IntegrationStream, got.ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	sources := map[string]bool{}
	for i, r := range recorded {
		if r.Metadata.Actor != "staff:test" || r.ID != recorded[0].ID || r.StreamVersion != i+1 ||
			r.Metadata.Batch == uuid.Nil {
			t.Errorf("recorded %+v", r)
		}
		sources[r.Source] = true
	}
	if len(recorded) != 5 || len(sources) != 5 {
		t.Errorf("%d events from %d sources, want 5", len(recorded), len(sources))
	}
}

func TestUnknownIntegration(t *testing.T) {
	t.Parallel()
	s := setup(t)
	for _, handle := range []string{"nobody", "", uuid.NewString(), "' OR true --"} {
		if _, err := s.Integration(t.Context(), handle); !errors.Is(err, principal.ErrNotFound) {
			t.Errorf("%q: %v, want ErrNotFound", handle, err)
		}
	}
	if _, err := s.ChangeIntegration(t.Context(), uuid.New(), principal.Change{Review: new(true)}); !errors.Is(err,
		principal.ErrNotFound) {
		t.Errorf("change: %v, want ErrNotFound", err)
	}
	if list, err := s.ListIntegrations(t.Context(), staff.Place{}, 0); err != nil || list == nil || len(list) != 0 {
		t.Errorf("list %#v, %v; want an empty one", list, err)
	}
}

func TestChangeIntegrationTwice(t *testing.T) {
	t.Parallel()
	s := setup(t)
	made, err := s.CreateIntegration(t.Context(), "Partner", principal.Change{})
	if err != nil {
		t.Fatal(err)
	}
	change := principal.Change{
		Enabled: new(false), NovelsPerMinute: new(0), Capabilities: map[principal.Capability]bool{principal.Posts: true},
	}
	for range 2 {
		got, err := s.ChangeIntegration(t.Context(), made.ID, change)
		if err != nil {
			t.Fatal(err)
		}
		want := made
		want.Enabled, want.NovelsPerMinute, want.Capabilities = false, 0, []string{"posts"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	want := []events.Event{
		events.IntegrationRegistered{Name: "Partner", RegisteredAt: noon},
		events.IntegrationDisabled{},
		events.CapabilityEnabled{Capability: "posts"},
		events.RateLimitSet{Operation: "novels"},
	}
	if diff := cmp.Diff(want, stream(t, s, made.ID)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestRefusedChangesStoreNothing(t *testing.T) {
	t.Parallel()
	s := setup(t)
	made, err := s.CreateIntegration(t.Context(), "Partner", principal.Change{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		change  principal.Change
		refusal error
	}{
		{principal.Change{Enabled: new(false), PostsPerMinute: new(-1)}, principal.ErrLimit},
		{principal.Change{PostsPerMinute: new(1 << 40)}, principal.ErrLimit},
		{
			principal.Change{Enabled: new(false), Capabilities: map[principal.Capability]bool{"all": true}},
			principal.ErrCapability,
		},
	} {
		if _, err := s.ChangeIntegration(t.Context(), made.ID, c.change); !errors.Is(err, c.refusal) {
			t.Errorf("got %v, want %v", err, c.refusal)
		}
		if _, err := s.CreateIntegration(t.Context(), "Another", c.change); !errors.Is(err, c.refusal) {
			t.Errorf("on creation: %v, want %v", err, c.refusal)
		}
	}
	if _, err := s.CreateIntegration(t.Context(), "  ", principal.Change{}); !errors.Is(err,
		principal.ErrNameInvalid) {
		t.Errorf("got %v, want ErrNameInvalid", err)
	}
	if got := stream(t, s, made.ID); len(got) != 1 {
		t.Errorf("stored %+v", got)
	}
}

// TestConcurrentChangesAllHold: each decides on what the others have done.
func TestConcurrentChangesAllHold(t *testing.T) {
	t.Parallel()
	s := setup(t)
	made, err := s.CreateIntegration(t.Context(), "Partner", principal.Change{})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for _, change := range []principal.Change{
		{Enabled: new(false)},
		{Review: new(true)},
		{PostsPerMinute: new(1)},
		{NovelsPerMinute: new(2)},
		{Capabilities: map[principal.Capability]bool{principal.Posts: true}},
	} {
		wg.Go(func() {
			if _, err := s.ChangeIntegration(t.Context(), made.ID, change); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	got, err := s.Integration(t.Context(), made.ID.String())
	if err != nil {
		t.Fatal(err)
	}
	want := made
	want.Enabled, want.Review, want.PostsPerMinute, want.NovelsPerMinute, want.Capabilities = false, true, 1, 2,
		[]string{"posts"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestReplicasAreTold(t *testing.T) {
	t.Parallel()
	s := setup(t)
	conn, err := s.Pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	for _, channel := range []string{access.Channel, eventlog.AppendedChannel} {
		if _, err := conn.Exec(t.Context(), "LISTEN "+channel); err != nil {
			t.Fatal(err)
		}
	}
	defer func() { _, _ = conn.Exec(t.Context(), "UNLISTEN *") }()
	expect := func(want string) {
		t.Helper()
		deadline := time.After(30 * time.Second)
		heard := make(chan string, 1)
		go func() {
			if n, err := conn.Conn().WaitForNotification(t.Context()); err == nil {
				heard <- n.Channel
			}
		}()
		select {
		case got := <-heard:
			if got != want {
				t.Errorf("heard %s, want %s", got, want)
			}
		case <-deadline:
			t.Fatalf("heard nothing on %s", want)
		}
	}
	if _, err := s.CreateIntegration(t.Context(), "Partner", principal.Change{}); err != nil {
		t.Fatal(err)
	}
	expect(eventlog.AppendedChannel)
	expect(access.Channel)
	if _, err := s.PublishNovel(t.Context(), "Genji", novel.Fields{}, ""); err != nil {
		t.Fatal(err)
	}
	expect(eventlog.AppendedChannel)
}
