package principal_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"novelgate/aggregates/principal"
	"novelgate/events"
)

var (
	noon  = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	keyID = uuid.UUID{7}
)

// keyCase is a decision about keys: events of the principal, a command, and the decided events or the refusal.
type keyCase struct {
	given   []events.Event
	when    func(history []events.Recorded) ([]events.Event, error)
	then    []events.Event
	refusal error
}

func testKeys(t *testing.T, cases map[string]keyCase) {
	t.Helper()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			history := make([]events.Recorded, len(c.given))
			for i, event := range c.given {
				history[i].Event = event
			}
			got, err := c.when(history)
			if !errors.Is(err, c.refusal) {
				t.Fatalf("error %v, want %v", err, c.refusal)
			}
			if diff := cmp.Diff(c.then, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestKeysOfIntegrations(t *testing.T) {
	t.Parallel()
	list := func(e ...events.Event) []events.Event { return e }
	registered := events.IntegrationRegistered{Name: "Partner"}
	issued, second := events.KeyIssued{KeyID: keyID, IssuedAt: noon}, events.KeyIssued{KeyID: uuid.UUID{8}, IssuedAt: noon}
	expiring := func(after time.Duration) events.KeyIssued {
		return events.KeyIssued{KeyID: keyID, IssuedAt: noon, ExpiresAt: new(noon.Add(after))}
	}
	revoked := events.KeyRevoked{KeyID: keyID, Reason: "leaked", RevokedAt: noon}
	ends := events.KeyExpirySet{KeyID: keyID, ExpiresAt: noon.Add(time.Hour)}
	of := func(history []events.Recorded) principal.Integration {
		return principal.FoldIntegration(uuid.UUID{1}, history)
	}
	issue := func(key events.KeyIssued) func([]events.Recorded) ([]events.Event, error) {
		return func(history []events.Recorded) ([]events.Event, error) { return of(history).IssueKey(key) }
	}
	revoke := func(history []events.Recorded) ([]events.Event, error) {
		return of(history).RevokeKey(keyID, "leaked", noon)
	}
	rotate := func(overlap time.Duration) func([]events.Recorded) ([]events.Event, error) {
		return func(history []events.Recorded) ([]events.Event, error) {
			return of(history).RotateKey(keyID, second, overlap)
		}
	}
	testKeys(t, map[string]keyCase{
		"issue":                  {list(registered), issue(issued), list(issued), nil},
		"issue an expiring key":  {list(registered), issue(expiring(time.Second)), list(expiring(time.Second)), nil},
		"issue an expired key":   {list(registered), issue(expiring(0)), nil, principal.ErrExpiryPassed},
		"issue a second key":     {list(registered, issued), issue(second), list(second), nil},
		"issue while disabled":   {list(registered, events.IntegrationDisabled{}), issue(issued), list(issued), nil},
		"revoke":                 {list(registered, issued), revoke, list(revoked), nil},
		"revoke twice":           {list(registered, issued, revoked), revoke, nil, principal.ErrKeyRevoked},
		"revoke an unknown key":  {list(registered), revoke, nil, principal.ErrKeyNotFound},
		"rotate":                 {list(registered, issued), rotate(time.Hour), list(second, ends), nil},
		"rotate a long key":      {list(registered, expiring(2*time.Hour)), rotate(time.Hour), list(second, ends), nil},
		"rotate an expiring key": {list(registered, expiring(time.Minute)), rotate(time.Hour), list(second), nil},
		"rotate twice":           {list(registered, issued, ends), rotate(2 * time.Hour), list(second), nil},
		"rotate a revoked key":   {list(registered, issued, revoked), rotate(0), nil, principal.ErrKeyRevoked},
		"rotate an unknown key":  {list(registered), rotate(0), nil, principal.ErrKeyNotFound},
		"rotate to the past":     {list(registered, issued), rotate(-1), nil, principal.ErrOverlap},
		"rotate a revoked key whose expiry was set": {
			list(registered, issued, revoked, ends), rotate(0), nil, principal.ErrKeyRevoked,
		},
	})
}

func TestKeysOfStaffUsers(t *testing.T) {
	t.Parallel()
	list := func(e ...events.Event) []events.Event { return e }
	issued := events.PersonKeyIssued{Name: "Ada", Role: principal.Staff, KeyID: keyID, IssuedAt: noon}
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
	issue := func(key events.PersonKeyIssued) func([]events.Recorded) ([]events.Event, error) {
		return func(history []events.Recorded) ([]events.Event, error) {
			return principal.FoldUser(history).IssueKey(key)
		}
	}
	revoke := func(history []events.Recorded) ([]events.Event, error) {
		return principal.FoldUser(history).RevokeKey(keyID, "left", noon)
	}
	longest := strings.Repeat("é", 100)
	testKeys(t, map[string]keyCase{
		"issue":                         {nil, issue(issued), list(issued), nil},
		"issue to an auditor":           {nil, issue(role(principal.Auditor)), list(role(principal.Auditor)), nil},
		"issue to a partner":            {nil, issue(role("partner")), nil, principal.ErrRole},
		"issue without a role":          {nil, issue(role("")), nil, principal.ErrRole},
		"issue an expiring key":         {nil, issue(expiring(time.Second)), list(expiring(time.Second)), nil},
		"issue an expired key":          {nil, issue(expiring(0)), nil, principal.ErrExpiryPassed},
		"issue after a revocation":      {list(issued, revoked), issue(second), list(second), nil},
		"longest name":                  {nil, issue(named(longest)), list(named(longest)), nil},
		"name too long":                 {nil, issue(named(longest + "é")), nil, principal.ErrNameInvalid},
		"invisible name":                {nil, issue(named("\u3164\u2800")), nil, principal.ErrNameInvalid},
		"blank name":                    {nil, issue(named("  ")), nil, principal.ErrNameInvalid},
		"spaces around the name":        {nil, issue(named(" Ada ")), list(named("Ada")), nil},
		"line break in the name":        {nil, issue(named("Ada\nLovelace")), nil, principal.ErrNameInvalid},
		"invalid UTF-8 in the name":     {nil, issue(named("Ada\xff")), nil, principal.ErrNameInvalid},
		"space in the name":             {nil, issue(named("Ada Lovelace")), list(named("Ada Lovelace")), nil},
		"revoke one of two":             {list(issued, second), revoke, list(revoked), nil},
		"revoke twice":                  {list(issued, second, revoked), revoke, nil, principal.ErrKeyRevoked},
		"revoke an unknown key":         {list(second), revoke, nil, principal.ErrKeyNotFound},
		"revoke a key without a stream": {nil, revoke, nil, principal.ErrKeyNotFound},
	})
}
