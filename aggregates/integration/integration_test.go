package integration_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"novelgate/aggregates/integration"
	"novelgate/events"
)

var (
	noon  = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	keyID = uuid.UUID{7}
)

// given is an integration that was registered and then went through this.
func given(history ...events.Event) integration.Integration {
	recorded := []events.Recorded{{Event: events.IntegrationRegistered{Name: "Partner"}}}
	for _, event := range history {
		recorded = append(recorded, events.Recorded{Event: event})
	}
	return integration.Fold(uuid.UUID{1}, recorded)
}

func TestRegister(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		name string
		then []events.Event
	}{
		"plain": {"Partner", []events.Event{events.IntegrationRegistered{Name: "Partner", RegisteredAt: noon}}},
		"spaces around it": {
			"  Partner\n", []events.Event{events.IntegrationRegistered{Name: "Partner", RegisteredAt: noon}},
		},
		"longest": {
			strings.Repeat("é", 100),
			[]events.Event{events.IntegrationRegistered{Name: strings.Repeat("é", 100), RegisteredAt: noon}},
		},
		"too long":           {strings.Repeat("é", 101), nil},
		"empty":              {"", nil},
		"nothing but spaces": {" \t ", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := integration.Register(c.name, noon)
			if refused := errors.Is(err, integration.ErrNameInvalid); refused != (c.then == nil) {
				t.Fatalf("error %v", err)
			}
			if diff := cmp.Diff(c.then, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestTheNameOfTheHost: owner=host asks for the novels of the host platform, so no partner may be called that. One that
// is called so since before keeps the name until it gets another.
func TestTheNameOfTheHost(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"host", "Host", " HOST\t", "ho\u017ft"} {
		if got, err := integration.Register(name, noon); !errors.Is(err, integration.ErrNameReserved) {
			t.Errorf("register %q: %v, %v", name, got, err)
		}
		if got, err := given().Change(integration.Change{Name: &name}); !errors.Is(err, integration.ErrNameReserved) {
			t.Errorf("rename to %q: %v, %v", name, got, err)
		}
	}
	before := given(events.IntegrationRenamed{Name: "Host"})
	if before.Name != "Host" {
		t.Errorf("replayed as %q", before.Name)
	}
	got, err := before.Change(integration.Change{Name: new("Host "), Enabled: new(false)})
	if diff := cmp.Diff([]events.Event{events.IntegrationDisabled{}}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for _, name := range []string{"hosts", "The Host", "ghost"} {
		if _, err := integration.Register(name, noon); err != nil {
			t.Errorf("register %q: %v", name, err)
		}
	}
}

func TestChange(t *testing.T) {
	t.Parallel()
	type capabilities = map[integration.Capability]bool
	for name, c := range map[string]struct {
		given   []events.Event
		when    integration.Change
		then    []events.Event
		refusal error
	}{
		"nothing": {},
		"as it is already": {
			when: integration.Change{
				Enabled: new(true), Review: new(false), PostsPerMinute: new(60), NovelsPerMinute: new(60),
				Capabilities: capabilities{integration.Posts: false},
			},
		},
		"rename": {
			when: integration.Change{Name: new(" Another ")}, then: []events.Event{events.IntegrationRenamed{Name: "Another"}},
		},
		"rename, case alone": {
			when: integration.Change{Name: new("PARTNER")}, then: []events.Event{events.IntegrationRenamed{Name: "PARTNER"}},
		},
		"the same name": {when: integration.Change{Name: new("Partner ")}},
		"the first name again": {
			given: []events.Event{events.IntegrationRenamed{Name: "Another"}}, when: integration.Change{Name: new("Partner")},
			then: []events.Event{events.IntegrationRenamed{Name: "Partner"}},
		},
		"no name": {
			when: integration.Change{Name: new(" "), Enabled: new(false)}, refusal: integration.ErrNameInvalid,
		},
		"a name too long": {
			when: integration.Change{Name: new(strings.Repeat("é", 101))}, refusal: integration.ErrNameInvalid,
		},
		"a name in two lines": {when: integration.Change{Name: new("a\nb")}, refusal: integration.ErrNameInvalid},
		"disable": {
			when: integration.Change{Enabled: new(false)}, then: []events.Event{events.IntegrationDisabled{}},
		},
		"enable": {
			given: []events.Event{events.IntegrationDisabled{}}, when: integration.Change{Enabled: new(true)},
			then: []events.Event{events.IntegrationEnabled{}},
		},
		"enable capabilities": {
			when: integration.Change{Capabilities: capabilities{integration.Posts: true, integration.Novels: true}},
			then: []events.Event{events.CapabilityEnabled{Capability: "novels"}, events.CapabilityEnabled{Capability: "posts"}},
		},
		"disable a capability": {
			given: []events.Event{events.CapabilityEnabled{Capability: "posts"}},
			when:  integration.Change{Capabilities: capabilities{integration.Posts: false}},
			then:  []events.Event{events.CapabilityDisabled{Capability: "posts"}},
		},
		"unknown capability": {
			when:    integration.Change{Enabled: new(false), Capabilities: capabilities{"everything": true}},
			refusal: integration.ErrCapability,
		},
		"limits": {
			when: integration.Change{PostsPerMinute: new(0), NovelsPerMinute: new(600)},
			then: []events.Event{
				events.RateLimitSet{Operation: "posts"}, events.RateLimitSet{Operation: "novels", PerMinute: 600},
			},
		},
		"updates": {
			when: integration.Change{NovelUpdates: &events.UpdateLimit{PerMinute: new(10)}},
			then: []events.Event{
				events.RateLimitSet{Operation: "novels", PerMinute: 60, Updates: &events.UpdateLimit{PerMinute: new(10)}},
			},
		},
		"updates and creations": {
			when: integration.Change{NovelsPerMinute: new(5), NovelUpdates: &events.UpdateLimit{PerMinute: new(0)}},
			then: []events.Event{
				events.RateLimitSet{Operation: "novels", PerMinute: 5},
				events.RateLimitSet{Operation: "novels", PerMinute: 5, Updates: &events.UpdateLimit{PerMinute: new(0)}},
			},
		},
		"updates as before": {
			given: []events.Event{
				events.RateLimitSet{Operation: "novels", PerMinute: 60, Updates: &events.UpdateLimit{PerMinute: new(10)}},
				events.RateLimitSet{Operation: "novels", PerMinute: 7},
			},
			when: integration.Change{NovelUpdates: &events.UpdateLimit{PerMinute: new(10)}},
		},
		"updates off": {
			given: []events.Event{
				events.RateLimitSet{Operation: "novels", PerMinute: 60, Updates: &events.UpdateLimit{PerMinute: new(10)}},
			},
			when: integration.Change{NovelUpdates: &events.UpdateLimit{}},
			then: []events.Event{events.RateLimitSet{Operation: "novels", PerMinute: 60, Updates: &events.UpdateLimit{}}},
		},
		"updates off as before": {when: integration.Change{NovelUpdates: &events.UpdateLimit{}}},
		"negative updates": {
			when: integration.Change{NovelUpdates: &events.UpdateLimit{PerMinute: new(-1)}}, refusal: integration.ErrLimit,
		},
		"limit as set before": {
			given: []events.Event{events.RateLimitSet{Operation: "novels", PerMinute: 5}},
			when:  integration.Change{NovelsPerMinute: new(5)},
		},
		"negative posts limit":  {when: integration.Change{PostsPerMinute: new(-1)}, refusal: integration.ErrLimit},
		"negative novels limit": {when: integration.Change{NovelsPerMinute: new(-1)}, refusal: integration.ErrLimit},
		"limit beyond measure": {
			when: integration.Change{PostsPerMinute: new(integration.MaxPerMinute + 1)}, refusal: integration.ErrLimit,
		},
		"greatest limit": {
			when: integration.Change{PostsPerMinute: new(integration.MaxPerMinute)},
			then: []events.Event{events.RateLimitSet{Operation: "posts", PerMinute: integration.MaxPerMinute}},
		},
		"review on": {
			when: integration.Change{Review: new(true)}, then: []events.Event{events.ReviewModeSet{Review: true}},
		},
		"review off": {
			given: []events.Event{events.ReviewModeSet{Review: true}}, when: integration.Change{Review: new(false)},
			then: []events.Event{events.ReviewModeSet{}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := given(c.given...).Change(c.when)
			if !errors.Is(err, c.refusal) {
				t.Fatalf("error %v, want %v", err, c.refusal)
			}
			if diff := cmp.Diff(c.then, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestUnknownIntegration(t *testing.T) {
	t.Parallel()
	unknown := integration.Fold(uuid.UUID{1}, nil)
	if unknown.Exists() {
		t.Error("an integration without events exists")
	}
	if _, err := unknown.Change(integration.Change{Review: new(true)}); !errors.Is(err, integration.ErrNotFound) {
		t.Errorf("change: %v", err)
	}
	if _, err := unknown.IssueKey(events.KeyIssued{}); !errors.Is(err, integration.ErrNotFound) {
		t.Errorf("issue key: %v", err)
	}
	if _, err := unknown.RevokeKey(keyID, "", noon); !errors.Is(err, integration.ErrKeyNotFound) {
		t.Errorf("revoke key: %v", err)
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	issued := events.KeyIssued{KeyID: keyID, IssuedAt: noon}
	expiring := func(after time.Duration) events.KeyIssued {
		return events.KeyIssued{KeyID: keyID, IssuedAt: noon, ExpiresAt: new(noon.Add(after))}
	}
	revoked := events.KeyRevoked{KeyID: keyID, Reason: "leaked", RevokedAt: noon}
	issue := func(key events.KeyIssued) func(integration.Integration) ([]events.Event, error) {
		return func(i integration.Integration) ([]events.Event, error) { return i.IssueKey(key) }
	}
	revoke := func(i integration.Integration) ([]events.Event, error) { return i.RevokeKey(keyID, "leaked", noon) }
	for name, c := range map[string]struct {
		given   []events.Event
		when    func(integration.Integration) ([]events.Event, error)
		then    []events.Event
		refusal error
	}{
		"issue":                   {when: issue(issued), then: []events.Event{issued}},
		"issue one that expires":  {when: issue(expiring(time.Second)), then: []events.Event{expiring(time.Second)}},
		"issue one that is over":  {when: issue(expiring(-time.Second)), refusal: integration.ErrExpiryPassed},
		"issue one that ends now": {when: issue(expiring(0)), refusal: integration.ErrExpiryPassed},
		"issue a second one": {
			given: []events.Event{issued}, when: issue(events.KeyIssued{KeyID: uuid.UUID{8}}),
			then: []events.Event{events.KeyIssued{KeyID: uuid.UUID{8}}},
		},
		"issue while disabled": {
			given: []events.Event{events.IntegrationDisabled{}}, when: issue(issued), then: []events.Event{issued},
		},
		"revoke":                {given: []events.Event{issued}, when: revoke, then: []events.Event{revoked}},
		"revoke twice":          {given: []events.Event{issued, revoked}, when: revoke, refusal: integration.ErrKeyRevoked},
		"revoke an unknown one": {when: revoke, refusal: integration.ErrKeyNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := c.when(given(c.given...))
			if !errors.Is(err, c.refusal) {
				t.Fatalf("error %v, want %v", err, c.refusal)
			}
			if diff := cmp.Diff(c.then, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestChangeReachesWhatIsWanted holds from any settings to any others; and doing it again does nothing.
func TestChangeReachesWhatIsWanted(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		history := []events.Recorded{{Event: events.IntegrationRegistered{Name: "Partner"}}}
		for range rapid.IntRange(1, 5).Draw(t, "changes") {
			before := integration.Fold(uuid.UUID{1}, history)
			change := anyChange(t)
			decided, err := before.Change(change)
			if err != nil {
				t.Fatal(err)
			}
			for _, event := range decided {
				history = append(history, events.Recorded{Event: event})
			}
			after := integration.Fold(uuid.UUID{1}, history)
			if diff := cmp.Diff(wanted(before, change), after); diff != "" {
				t.Fatalf("(-want +got):\n%s", diff)
			}
			if again, err := after.Change(change); err != nil || len(again) > 0 {
				t.Fatalf("a second time: %v, %v", again, err)
			}
		}
	})
}

func anyChange(t *rapid.T) integration.Change {
	limit := rapid.Ptr(rapid.SampledFrom([]int{0, 1, 60, 600}), true)
	updates := rapid.Map(limit,
		func(perMinute *int) events.UpdateLimit { return events.UpdateLimit{PerMinute: perMinute} })
	return integration.Change{
		NovelUpdates:   rapid.Ptr(updates, true).Draw(t, "updates"),
		Enabled:        rapid.Ptr(rapid.Bool(), true).Draw(t, "enabled"),
		Review:         rapid.Ptr(rapid.Bool(), true).Draw(t, "review"),
		PostsPerMinute: limit.Draw(t, "posts"), NovelsPerMinute: limit.Draw(t, "novels"),
		Capabilities: rapid.MapOf(rapid.SampledFrom([]integration.Capability{integration.Novels, integration.Posts}),
			rapid.Bool()).Draw(t, "capabilities"),
	}
}

// wanted is before with what change says, one version further for each setting that differs.
func wanted(before integration.Integration, change integration.Change) integration.Integration {
	want := before
	want.Capabilities = map[integration.Capability]bool{}
	for _, capability := range []integration.Capability{integration.Novels, integration.Posts} {
		on, said := change.Capabilities[capability]
		if !said {
			on = before.Capabilities[capability]
		}
		if on {
			want.Capabilities[capability] = true
		}
		if on != before.Capabilities[capability] {
			want.Version++
		}
	}
	if change.NovelUpdates != nil {
		if !cmp.Equal(want.NovelUpdatesPerMinute, change.NovelUpdates.PerMinute) {
			want.Version++
		}
		want.NovelUpdatesPerMinute = change.NovelUpdates.PerMinute
	}
	set(&want.Enabled, change.Enabled, &want.Version)
	set(&want.Review, change.Review, &want.Version)
	set(&want.PostsPerMinute, change.PostsPerMinute, &want.Version)
	set(&want.NovelsPerMinute, change.NovelsPerMinute, &want.Version)
	return want
}

func set[T comparable](field, value *T, version *int) {
	if value != nil && *field != *value {
		*field = *value
		*version++
	}
}
