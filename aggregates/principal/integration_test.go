package principal_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

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

// TestTheNameOfTheHost: owner=host selects novels of the host platform, so no partner may have that name. An older one
// that has it keeps it until it is renamed.
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
				LinesPerMinute: new(60_000), Capabilities: capabilities{principal.Posts: false},
			},
		},
		"as it was made before": {
			given: []events.Event{
				events.IntegrationDisabled{},
				events.ReviewModeSet{Review: true},
				events.CapabilityEnabled{Capability: "import"},
				events.RateLimitSet{Operation: "posts", PerMinute: 1},
				events.RateLimitSet{Operation: "novels", PerMinute: 2},
				events.RateLimitSet{Operation: "lines", PerMinute: 3},
			},
			when: principal.Change{
				Enabled: new(false), Review: new(true), PostsPerMinute: new(1), NovelsPerMinute: new(2), LinesPerMinute: new(3),
				Capabilities: capabilities{principal.Import: true, principal.Novels: false},
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
			when: principal.Change{PostsPerMinute: new(0), NovelsPerMinute: new(600), LinesPerMinute: new(1)},
			then: []events.Event{
				events.RateLimitSet{Operation: "posts"},
				events.RateLimitSet{Operation: "novels", PerMinute: 600},
				events.RateLimitSet{Operation: "lines", PerMinute: 1},
			},
		},
		"limit as set before": {
			given: []events.Event{events.RateLimitSet{Operation: "novels", PerMinute: 5}},
			when:  principal.Change{NovelsPerMinute: new(5)},
		},
		"negative posts limit":  {when: principal.Change{PostsPerMinute: new(-1)}, refusal: principal.ErrLimit},
		"negative novels limit": {when: principal.Change{NovelsPerMinute: new(-1)}, refusal: principal.ErrLimit},
		"negative lines limit":  {when: principal.Change{LinesPerMinute: new(-1)}, refusal: principal.ErrLimit},
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
