// Package integration decides on changes of an integration: its name, capabilities, limits and keys.
package integration

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"novelgate/events"
)

// Capability is the right to use one endpoint.
type Capability string

// Capabilities.
const (
	Novels Capability = "novels" // create novels
	Posts  Capability = "posts"  // post ingestion
)

// novelUpdates names the limit of updates in a LimitError. There is no such capability.
const novelUpdates Capability = "novelUpdates"

// Default limits per minute (SPEC section 8; the creation limit is ours).
const (
	DefaultPostsPerMinute  = 60
	DefaultNovelsPerMinute = 60
)

// MaxPerMinute is the greatest limit. It fits into every integer type of the code and of the tables.
const MaxPerMinute = 1_000_000_000

// maxName is the longest name of an integration, in characters.
const maxName = 100

// hostName is the host platform's name where novels are listed by owner.
const hostName = "host"

// Refusals.
var (
	ErrNotFound     = errors.New("no such integration")
	ErrKeyNotFound  = errors.New("no such key")
	ErrKeyRevoked   = errors.New("the key is revoked already")
	ErrNameInvalid  = fmt.Errorf("the name must have 1 to %d printable characters", maxName)
	ErrNameReserved = fmt.Errorf(
		"the name %q, in any case, means the host platform to those who ask for novels by owner: choose another", hostName)
	ErrCapability   = errors.New(`a capability is "novels" or "posts"`)
	ErrLimit        = fmt.Errorf("a limit must lie between 0 and %d", MaxPerMinute)
	ErrOverlap      = errors.New("the overlap must not be negative")
	ErrExpiryPassed = errors.New("the expiry lies in the past")
)

// LimitError is ErrLimit with the operations whose limits are out of range.
type LimitError struct{ Operations []Capability }

func (e *LimitError) Error() string {
	names := make([]string, len(e.Operations))
	for i, operation := range e.Operations {
		names[i] = string(operation)
	}
	return strings.Join(names, ", ") + ": " + ErrLimit.Error()
}

func (e *LimitError) Unwrap() error { return ErrLimit }

// Integration is the state for decisions. The zero Integration does not exist yet.
type Integration struct {
	ID              uuid.UUID
	Name            string
	Enabled         bool
	Capabilities    map[Capability]bool
	PostsPerMinute  int
	NovelsPerMinute int
	// NovelUpdatesPerMinute limits the updates of its own novels; nil: no limit.
	NovelUpdatesPerMinute *int
	Review                bool
	Keys                  map[uuid.UUID]Key
	Version               int
}

// Key is the state of an API key.
type Key struct {
	Revoked   bool
	ExpiresAt *time.Time // nil: never
}

// Exists reports whether the integration was registered.
func (i Integration) Exists() bool { return i.Version > 0 }

// Fold returns the integration after the events of its stream, oldest first.
func Fold(id uuid.UUID, history []events.Recorded) Integration {
	i := Integration{
		ID: id, Capabilities: map[Capability]bool{}, Keys: map[uuid.UUID]Key{},
		PostsPerMinute: DefaultPostsPerMinute, NovelsPerMinute: DefaultNovelsPerMinute,
	}
	for _, recorded := range history {
		i.apply(recorded.Event)
	}
	return i
}

func (i *Integration) apply(event events.Event) {
	i.Version++
	switch e := event.(type) {
	case events.IntegrationRegistered:
		i.Name, i.Enabled = e.Name, true
	case events.IntegrationRenamed:
		i.Name = e.Name
	case events.IntegrationEnabled:
		i.Enabled = true
	case events.IntegrationDisabled:
		i.Enabled = false
	case events.CapabilityEnabled:
		i.Capabilities[Capability(e.Capability)] = true
	case events.CapabilityDisabled:
		delete(i.Capabilities, Capability(e.Capability))
	case events.RateLimitSet:
		if Capability(e.Operation) == Posts {
			i.PostsPerMinute = e.PerMinute
		} else {
			i.NovelsPerMinute = e.PerMinute
		}
		if e.Updates != nil {
			i.NovelUpdatesPerMinute = e.Updates.PerMinute
		}
	case events.ReviewModeSet:
		i.Review = e.Review
	case events.KeyIssued:
		i.Keys[e.KeyID] = Key{ExpiresAt: e.ExpiresAt}
	case events.KeyExpirySet:
		i.Keys[e.KeyID] = Key{Revoked: i.Keys[e.KeyID].Revoked, ExpiresAt: &e.ExpiresAt}
	case events.KeyRevoked:
		i.Keys[e.KeyID] = Key{Revoked: true}
	default: // no event of this stream
	}
}

// Register creates an integration.
func Register(name string, at time.Time) ([]events.Event, error) {
	name, err := cleanName(name)
	if err != nil {
		return nil, err
	}
	if isReserved(name) {
		return nil, ErrNameReserved
	}
	return []events.Event{events.IntegrationRegistered{Name: name, RegisteredAt: at}}, nil
}

// cleanName trims a name. It refuses an empty name, a long one, and one with unprintable characters.
func cleanName(name string) (string, error) {
	name = strings.TrimSpace(name)
	unprintable := func(r rune) bool { return !unicode.IsPrint(r) }
	if n := utf8.RuneCountInString(name); n < 1 || n > maxName || !utf8.ValidString(name) ||
		strings.ContainsFunc(name, unprintable) {
		return "", ErrNameInvalid
	}
	return name, nil
}

// isReserved reports whether a name means the host platform.
func isReserved(name string) bool { return strings.EqualFold(name, hostName) }
