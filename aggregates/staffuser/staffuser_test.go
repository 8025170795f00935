package staffuser_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"novelgate/aggregates/staffuser"
	"novelgate/events"
)

var (
	noon  = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	keyID = uuid.UUID{7}
)

func given(history ...events.Event) staffuser.User {
	var recorded []events.Recorded
	for _, event := range history {
		recorded = append(recorded, events.Recorded{Event: event})
	}
	return staffuser.Fold(recorded)
}

func TestKeys(t *testing.T) {
	t.Parallel()
	issued := events.PersonKeyIssued{Name: "Ada", Role: staffuser.Staff, KeyID: keyID, IssuedAt: noon}
	with := func(change func(*events.PersonKeyIssued)) events.PersonKeyIssued {
		key := issued
		change(&key)
		return key
	}
	named := func(name string) events.PersonKeyIssued {
		return with(func(key *events.PersonKeyIssued) { key.Name = name })
	}
	expiring := func(after time.Duration) events.PersonKeyIssued {
		return with(func(key *events.PersonKeyIssued) { key.ExpiresAt = new(noon.Add(after)) })
	}
	role := func(role string) events.PersonKeyIssued {
		return with(func(key *events.PersonKeyIssued) { key.Role = role })
	}
	second := with(func(key *events.PersonKeyIssued) { key.KeyID = uuid.UUID{8} })
	revoked := events.PersonKeyRevoked{KeyID: keyID, Reason: "left", RevokedAt: noon}
	issue := func(key events.PersonKeyIssued) func(staffuser.User) ([]events.Event, error) {
		return func(u staffuser.User) ([]events.Event, error) { return u.Issue(key) }
	}
	revoke := func(u staffuser.User) ([]events.Event, error) { return u.Revoke(keyID, "left", noon) }
	for name, c := range map[string]struct {
		given   []events.Event
		when    func(staffuser.User) ([]events.Event, error)
		then    []events.Event
		refusal error
	}{
		"issue":                   {when: issue(issued), then: []events.Event{issued}},
		"issue to an auditor":     {when: issue(role(staffuser.Auditor)), then: []events.Event{role(staffuser.Auditor)}},
		"issue to a partner":      {when: issue(role("partner")), refusal: staffuser.ErrRole},
		"issue without a role":    {when: issue(role("")), refusal: staffuser.ErrRole},
		"issue one that expires":  {when: issue(expiring(time.Second)), then: []events.Event{expiring(time.Second)}},
		"issue one that is over":  {when: issue(expiring(-time.Second)), refusal: staffuser.ErrExpiryPassed},
		"issue one that ends now": {when: issue(expiring(0)), refusal: staffuser.ErrExpiryPassed},
		"issue a second one":      {given: []events.Event{issued}, when: issue(second), then: []events.Event{second}},
		"issue after a revocation": {
			given: []events.Event{issued, revoked}, when: issue(second), then: []events.Event{second},
		},
		"longest name": {
			when: issue(named(strings.Repeat("é", 100))), then: []events.Event{named(strings.Repeat("é", 100))},
		},
		"name too long":          {when: issue(named(strings.Repeat("é", 101))), refusal: staffuser.ErrNameInvalid},
		"no name":                {when: issue(named("")), refusal: staffuser.ErrNameInvalid},
		"spaces for a name":      {when: issue(named("  ")), refusal: staffuser.ErrNameInvalid},
		"spaces around the name": {when: issue(named(" Ada")), refusal: staffuser.ErrNameInvalid},
		"line break in the name": {when: issue(named("Ada\nLovelace")), refusal: staffuser.ErrNameInvalid},
		"name that is not UTF-8": {when: issue(named("Ada\xff")), refusal: staffuser.ErrNameInvalid},
		"space in the name":      {when: issue(named("Ada Lovelace")), then: []events.Event{named("Ada Lovelace")}},
		"revoke":                 {given: []events.Event{issued}, when: revoke, then: []events.Event{revoked}},
		"revoke one of two":      {given: []events.Event{issued, second}, when: revoke, then: []events.Event{revoked}},
		"revoke twice":           {given: []events.Event{issued, revoked}, when: revoke, refusal: staffuser.ErrKeyRevoked},
		"revoke an unknown one":  {given: []events.Event{second}, when: revoke, refusal: staffuser.ErrKeyNotFound},
		"revoke a key of nobody": {when: revoke, refusal: staffuser.ErrKeyNotFound},
		"revoke while another is not": {
			given: []events.Event{issued, second, revoked}, when: revoke, refusal: staffuser.ErrKeyRevoked,
		},
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
