package integration_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"novelgate/aggregates/integration"
	"novelgate/events"
)

func TestRotateKey(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	old, fresh := uuid.UUID{5}, events.KeyIssued{KeyID: uuid.UUID{6}, IssuedAt: now}
	registered := events.IntegrationRegistered{Name: "Partner", RegisteredAt: now}
	for name, c := range map[string]struct {
		given   []events.Event
		overlap time.Duration
		then    []events.Event
		refusal error
	}{
		"without an end": {
			given: []events.Event{registered, events.KeyIssued{KeyID: old}}, overlap: time.Hour,
			then: []events.Event{fresh, events.KeyExpirySet{KeyID: old, ExpiresAt: now.Add(time.Hour)}},
		},
		"that ends later": {
			given:   []events.Event{registered, events.KeyIssued{KeyID: old, ExpiresAt: new(now.Add(2 * time.Hour))}},
			overlap: time.Hour,
			then:    []events.Event{fresh, events.KeyExpirySet{KeyID: old, ExpiresAt: now.Add(time.Hour)}},
		},
		"that ends before": {
			given:   []events.Event{registered, events.KeyIssued{KeyID: old, ExpiresAt: new(now.Add(time.Minute))}},
			overlap: time.Hour,
			then:    []events.Event{fresh},
		},
		"rotated before": {
			given:   []events.Event{registered, events.KeyIssued{KeyID: old}, events.KeyExpirySet{KeyID: old, ExpiresAt: now}},
			overlap: time.Hour,
			then:    []events.Event{fresh},
		},
		"revoked before it was to end": {
			given: []events.Event{
				registered,
				events.KeyIssued{KeyID: old},
				events.KeyRevoked{KeyID: old},
				events.KeyExpirySet{KeyID: old, ExpiresAt: now.Add(time.Hour)},
			},
			refusal: integration.ErrKeyRevoked,
		},
		"revoked": {
			given:   []events.Event{registered, events.KeyIssued{KeyID: old}, events.KeyRevoked{KeyID: old}},
			refusal: integration.ErrKeyRevoked,
		},
		"unknown": {given: []events.Event{registered}, refusal: integration.ErrKeyNotFound},
		"negative overlap": {
			given: []events.Event{registered, events.KeyIssued{KeyID: old}}, overlap: -1, refusal: integration.ErrOverlap,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			history := make([]events.Recorded, len(c.given))
			for i, event := range c.given {
				history[i].Event = event
			}
			got, err := integration.Fold(uuid.UUID{1}, history).RotateKey(old, fresh, c.overlap)
			if !errors.Is(err, c.refusal) {
				t.Fatalf("got %v, want %v", err, c.refusal)
			}
			if diff := cmp.Diff(c.then, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
