package principal_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"novelgate/aggregates/principal"
	"novelgate/events"
)

// given is an integration with these events after its registration.
func given(history ...events.Event) principal.Integration {
	recorded := []events.Recorded{{Event: events.IntegrationRegistered{Name: "Partner"}}}
	for _, event := range history {
		recorded = append(recorded, events.Recorded{Event: event})
	}
	return principal.FoldIntegration(uuid.UUID{1}, recorded)
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
			got, err := principal.Register(c.name, noon)
			if refused := errors.Is(err, principal.ErrNameInvalid); refused != (c.then == nil) {
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
		if got, err := principal.Register(name, noon); !errors.Is(err, principal.ErrNameReserved) {
			t.Errorf("register %q: %v, %v", name, got, err)
		}
		if got, err := given().Change(principal.Change{Name: &name}); !errors.Is(err, principal.ErrNameReserved) {
			t.Errorf("rename to %q: %v, %v", name, got, err)
		}
	}
	before := given(events.IntegrationRenamed{Name: "Host"})
	if before.Name != "Host" {
		t.Errorf("replayed as %q", before.Name)
	}
	got, err := before.Change(principal.Change{Name: new("Host "), Enabled: new(false)})
	if diff := cmp.Diff([]events.Event{events.IntegrationDisabled{}}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for _, name := range []string{"hosts", "The Host", "ghost"} {
		if _, err := principal.Register(name, noon); err != nil {
			t.Errorf("register %q: %v", name, err)
		}
	}
}

func TestChange(t *testing.T) {
	t.Parallel()
	type capabilities = map[principal.Capability]bool
	for name, c := range map[string]struct {
		given   []events.Event
		when    principal.Change
		then    []events.Event
		refusal error
	}{
		"nothing": {},
		"as it is already": {
			when: principal.Change{
				Enabled: new(true), Review: new(false), PostsPerMinute: new(60), NovelsPerMinute: new(60),
				Capabilities: capabilities{principal.Posts: false},
			},
		},
		"rename": {
			when: principal.Change{Name: new(" Another ")}, then: []events.Event{events.IntegrationRenamed{Name: "Another"}},
		},
		"rename, case alone": {
			when: principal.Change{Name: new("PARTNER")}, then: []events.Event{events.IntegrationRenamed{Name: "PARTNER"}},
		},
		"the same name": {when: principal.Change{Name: new("Partner ")}},
		"the first name again": {
			given: []events.Event{events.IntegrationRenamed{Name: "Another"}}, when: principal.Change{Name: new("Partner")},
			then: []events.Event{events.IntegrationRenamed{Name: "Partner"}},
		},
		"no name": {
			when: principal.Change{Name: new(" "), Enabled: new(false)}, refusal: principal.ErrNameInvalid,
		},
		"a name too long": {
			when: principal.Change{Name: new(strings.Repeat("é", 101))}, refusal: principal.ErrNameInvalid,
		},
		"a name in two lines": {when: principal.Change{Name: new("a\nb")}, refusal: principal.ErrNameInvalid},
		"disable": {
			when: principal.Change{Enabled: new(false)}, then: []events.Event{events.IntegrationDisabled{}},
		},
		"enable": {
			given: []events.Event{events.IntegrationDisabled{}}, when: principal.Change{Enabled: new(true)},
			then: []events.Event{events.IntegrationEnabled{}},
		},
		"enable capabilities": {
			when: principal.Change{Capabilities: capabilities{principal.Posts: true, principal.Novels: true}},
			then: []events.Event{events.CapabilityEnabled{Capability: "novels"}, events.CapabilityEnabled{Capability: "posts"}},
		},
		"disable a capability": {
			given: []events.Event{events.CapabilityEnabled{Capability: "posts"}},
			when:  principal.Change{Capabilities: capabilities{principal.Posts: false}},
			then:  []events.Event{events.CapabilityDisabled{Capability: "posts"}},
		},
		"unknown capability": {
			when:    principal.Change{Enabled: new(false), Capabilities: capabilities{"everything": true}},
			refusal: principal.ErrCapability,
		},
		"limits": {
			when: principal.Change{PostsPerMinute: new(0), NovelsPerMinute: new(600)},
			then: []events.Event{
				events.RateLimitSet{Operation: "posts"}, events.RateLimitSet{Operation: "novels", PerMinute: 600},
			},
		},
		"updates": {
			when: principal.Change{NovelUpdates: &events.UpdateLimit{PerMinute: new(10)}},
			then: []events.Event{
				events.RateLimitSet{Operation: "novels", PerMinute: 60, Updates: &events.UpdateLimit{PerMinute: new(10)}},
			},
		},
		"updates and creations": {
			when: principal.Change{NovelsPerMinute: new(5), NovelUpdates: &events.UpdateLimit{PerMinute: new(0)}},
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
			when: principal.Change{NovelUpdates: &events.UpdateLimit{PerMinute: new(10)}},
		},
		"updates off": {
			given: []events.Event{
				events.RateLimitSet{Operation: "novels", PerMinute: 60, Updates: &events.UpdateLimit{PerMinute: new(10)}},
			},
			when: principal.Change{NovelUpdates: &events.UpdateLimit{}},
			then: []events.Event{events.RateLimitSet{Operation: "novels", PerMinute: 60, Updates: &events.UpdateLimit{}}},
		},
		"updates off as before": {when: principal.Change{NovelUpdates: &events.UpdateLimit{}}},
		"negative updates": {
			when: principal.Change{NovelUpdates: &events.UpdateLimit{PerMinute: new(-1)}}, refusal: principal.ErrLimit,
		},
		"limit as set before": {
			given: []events.Event{events.RateLimitSet{Operation: "novels", PerMinute: 5}},
			when:  principal.Change{NovelsPerMinute: new(5)},
		},
		"negative posts limit":  {when: principal.Change{PostsPerMinute: new(-1)}, refusal: principal.ErrLimit},
		"negative novels limit": {when: principal.Change{NovelsPerMinute: new(-1)}, refusal: principal.ErrLimit},
		"limit beyond measure": {
			when: principal.Change{PostsPerMinute: new(principal.MaxPerMinute + 1)}, refusal: principal.ErrLimit,
		},
		"greatest limit": {
			when: principal.Change{PostsPerMinute: new(principal.MaxPerMinute)},
			then: []events.Event{events.RateLimitSet{Operation: "posts", PerMinute: principal.MaxPerMinute}},
		},
		"review on": {
			when: principal.Change{Review: new(true)}, then: []events.Event{events.ReviewModeSet{Review: true}},
		},
		"review off": {
			given: []events.Event{events.ReviewModeSet{Review: true}}, when: principal.Change{Review: new(false)},
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
	unknown := principal.FoldIntegration(uuid.UUID{1}, nil)
	if unknown.Exists() {
		t.Error("an integration without events exists")
	}
	if _, err := unknown.Change(principal.Change{Review: new(true)}); !errors.Is(err, principal.ErrNotFound) {
		t.Errorf("change: %v", err)
	}
	if _, err := unknown.IssueKey(events.KeyIssued{}); !errors.Is(err, principal.ErrNotFound) {
		t.Errorf("issue key: %v", err)
	}
}

// TestChangeReachesWhatIsWanted holds from any settings to any others; and doing it again does nothing.
func TestChangeReachesWhatIsWanted(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		history := []events.Recorded{{Event: events.IntegrationRegistered{Name: "Partner"}}}
		for range rapid.IntRange(1, 5).Draw(t, "changes") {
			before := principal.FoldIntegration(uuid.UUID{1}, history)
			change := anyChange(t)
			decided, err := before.Change(change)
			if err != nil {
				t.Fatal(err)
			}
			for _, event := range decided {
				history = append(history, events.Recorded{Event: event})
			}
			after := principal.FoldIntegration(uuid.UUID{1}, history)
			if diff := cmp.Diff(wanted(before, change), after); diff != "" {
				t.Fatalf("(-want +got):\n%s", diff)
			}
			if again, err := after.Change(change); err != nil || len(again) > 0 {
				t.Fatalf("a second time: %v, %v", again, err)
			}
		}
	})
}

func anyChange(t *rapid.T) principal.Change {
	limit := rapid.Ptr(rapid.SampledFrom([]int{0, 1, 60, 600}), true)
	updates := rapid.Map(limit,
		func(perMinute *int) events.UpdateLimit { return events.UpdateLimit{PerMinute: perMinute} })
	return principal.Change{
		NovelUpdates:   rapid.Ptr(updates, true).Draw(t, "updates"),
		Enabled:        rapid.Ptr(rapid.Bool(), true).Draw(t, "enabled"),
		Review:         rapid.Ptr(rapid.Bool(), true).Draw(t, "review"),
		PostsPerMinute: limit.Draw(t, "posts"), NovelsPerMinute: limit.Draw(t, "novels"),
		Capabilities: rapid.MapOf(rapid.SampledFrom([]principal.Capability{principal.Novels, principal.Posts}),
			rapid.Bool()).Draw(t, "capabilities"),
	}
}

// wanted is before with what change says, one version further for each setting that differs.
func wanted(before principal.Integration, change principal.Change) principal.Integration {
	want := before
	want.Capabilities = map[principal.Capability]bool{}
	for _, capability := range []principal.Capability{principal.Novels, principal.Posts} {
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
