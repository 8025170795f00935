package integration

import (
	"time"

	"github.com/google/uuid"

	"novelgate/events"
)

// Change is a change of settings by staff. nil leaves a setting unchanged.
type Change struct {
	Name            *string
	Enabled         *bool
	Review          *bool
	Capabilities    map[Capability]bool // to switch on (true) or off (false)
	PostsPerMinute  *int
	NovelsPerMinute *int
	NovelUpdates    *events.UpdateLimit
}

// Change returns the events that apply a change. A setting that already has the wanted value gets no event.
func (i Integration) Change(c Change) ([]events.Event, error) {
	if !i.Exists() {
		return nil, ErrNotFound
	}
	var decided []events.Event
	if c.Name != nil {
		name, err := cleanName(*c.Name)
		if err != nil {
			return nil, err
		}
		if name != i.Name {
			if isReserved(name) {
				return nil, ErrNameReserved
			}
			decided = append(decided, events.IntegrationRenamed{Name: name})
		}
	}
	if c.Enabled != nil && *c.Enabled != i.Enabled {
		if *c.Enabled {
			decided = append(decided, events.IntegrationEnabled{})
		} else {
			decided = append(decided, events.IntegrationDisabled{})
		}
	}
	for capability := range c.Capabilities {
		if capability != Novels && capability != Posts {
			return nil, ErrCapability
		}
	}
	for _, capability := range []Capability{Novels, Posts} {
		on, wanted := c.Capabilities[capability]
		switch {
		case !wanted || on == i.Capabilities[capability]:
		case on:
			decided = append(decided, events.CapabilityEnabled{Capability: string(capability)})
		default:
			decided = append(decided, events.CapabilityDisabled{Capability: string(capability)})
		}
	}
	var beyond []Capability
	for _, limit := range []struct {
		operation Capability
		now       int
		wanted    *int
	}{{Posts, i.PostsPerMinute, c.PostsPerMinute}, {Novels, i.NovelsPerMinute, c.NovelsPerMinute}} {
		if limit.wanted == nil || *limit.wanted == limit.now {
			continue
		}
		if *limit.wanted < 0 || *limit.wanted > MaxPerMinute {
			beyond = append(beyond, limit.operation)
			continue
		}
		decided = append(decided, events.RateLimitSet{Operation: string(limit.operation), PerMinute: *limit.wanted})
	}
	if c.NovelUpdates != nil && !equal(c.NovelUpdates.PerMinute, i.NovelUpdatesPerMinute) {
		if limit := c.NovelUpdates.PerMinute; limit != nil && (*limit < 0 || *limit > MaxPerMinute) {
			beyond = append(beyond, novelUpdates)
		} else {
			decided = append(decided, events.RateLimitSet{
				Operation: string(Novels), PerMinute: valueOr(c.NovelsPerMinute, i.NovelsPerMinute), Updates: c.NovelUpdates,
			})
		}
	}
	if beyond != nil {
		return nil, &LimitError{beyond}
	}
	if c.Review != nil && *c.Review != i.Review {
		decided = append(decided, events.ReviewModeSet{Review: *c.Review})
	}
	return decided, nil
}

// equal compares optional limits.
func equal(a, b *int) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// valueOr returns the wanted value, or the current one when wanted is nil.
func valueOr(wanted *int, now int) int {
	if wanted != nil {
		return *wanted
	}
	return now
}

// IssueKey adds an API key to the integration.
func (i Integration) IssueKey(key events.KeyIssued) ([]events.Event, error) {
	if !i.Exists() {
		return nil, ErrNotFound
	}
	if key.ExpiresAt != nil && !key.ExpiresAt.After(key.IssuedAt) {
		return nil, ErrExpiryPassed
	}
	return []events.Event{key}, nil
}

// RevokeKey revokes an API key of the integration.
func (i Integration) RevokeKey(keyID uuid.UUID, reason string, at time.Time) ([]events.Event, error) {
	key, ok := i.Keys[keyID]
	switch {
	case !ok:
		return nil, ErrKeyNotFound
	case key.Revoked:
		return nil, ErrKeyRevoked
	default:
		return []events.Event{events.KeyRevoked{KeyID: keyID, Reason: reason, RevokedAt: at}}, nil
	}
}

// RotateKey replaces a key by issued. The old key stays valid for the overlap, but never beyond its own expiry.
func (i Integration) RotateKey(
	keyID uuid.UUID, issued events.KeyIssued, overlap time.Duration,
) ([]events.Event, error) {
	key, ok := i.Keys[keyID]
	switch {
	case !ok:
		return nil, ErrKeyNotFound
	case key.Revoked:
		return nil, ErrKeyRevoked
	case overlap < 0:
		return nil, ErrOverlap
	}
	decided, err := i.IssueKey(issued)
	if err != nil {
		return nil, err
	}
	if end := issued.IssuedAt.Add(overlap); key.ExpiresAt == nil || end.Before(*key.ExpiresAt) {
		decided = append(decided, events.KeyExpirySet{KeyID: keyID, ExpiresAt: end})
	}
	return decided, nil
}
