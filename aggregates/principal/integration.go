package principal

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"novelgate/events"
	"novelgate/internal/title"
)

// Capability is a right that staff give an integration.
type Capability string

// Capabilities.
const (
	Novels Capability = "novels" // create and update novels
	Posts  Capability = "posts"  // import comments
	Import Capability = "import" // bulk import
)

// Capabilities returns all capabilities, in the order in which they are listed.
func Capabilities() []Capability { return []Capability{Novels, Posts, Import} }

// Operations with a limit, as events and LimitError name them.
const (
	posts  = string(Posts)
	novels = string(Novels)
	lines  = "lines" // of bulk imports
)

// Default limits per minute (SPEC section 8, which leaves the creation limit open).
const (
	DefaultPostsPerMinute  = 60
	DefaultNovelsPerMinute = 60
	DefaultLinesPerMinute  = 60_000
)

// MaxPerMinute is the greatest limit. It fits into every integer type of the code and of the tables.
const MaxPerMinute = 1_000_000_000

// reservedName means the host platform where queries name the owner of a novel.
const reservedName = "host"

// Refusals.
var (
	ErrNotFound     = errors.New("no such integration")
	ErrNameReserved = fmt.Errorf(
		"the name %q, in upper or lower case, is reserved for the host platform: choose another", reservedName)
	ErrCapability = errors.New(`a capability is "novels", "posts" or "import"`)
	ErrLimit      = fmt.Errorf("a limit must lie between 0 and %d", MaxPerMinute)
	ErrOverlap    = errors.New("the overlap must not be negative")
)

// LimitError is ErrLimit with the operations whose limits are out of range.
type LimitError struct{ Operations []string }

func (e *LimitError) Error() string {
	return strings.Join(e.Operations, ", ") + ": " + ErrLimit.Error()
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
	LinesPerMinute  int // of bulk imports
	Review          bool
	Keys            Keys
	Version         int
}

// Exists reports whether the integration was registered.
func (i Integration) Exists() bool { return i.Version > 0 }

// FoldIntegration returns the integration after the events of its stream, oldest first.
func FoldIntegration(id uuid.UUID, history []events.Recorded) Integration {
	i := Integration{
		ID: id, Capabilities: map[Capability]bool{}, Keys: Keys{},
		PostsPerMinute: DefaultPostsPerMinute, NovelsPerMinute: DefaultNovelsPerMinute,
		LinesPerMinute: DefaultLinesPerMinute,
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
		switch e.Operation {
		case posts:
			i.PostsPerMinute = e.PerMinute
		case lines:
			i.LinesPerMinute = e.PerMinute
		default:
			i.NovelsPerMinute = e.PerMinute
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

// isReserved reports whether a name is reserved for the host platform.
func isReserved(name string) bool { return title.Fold(name) == reservedName }

// Change is a change of settings by staff. nil leaves a setting unchanged.
type Change struct {
	Name            *string
	Enabled         *bool
	Review          *bool
	Capabilities    map[Capability]bool // to switch on (true) or off (false)
	PostsPerMinute  *int
	NovelsPerMinute *int
	LinesPerMinute  *int
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
		if !slices.Contains(Capabilities(), capability) {
			return nil, ErrCapability
		}
	}
	for _, capability := range Capabilities() {
		on, given := c.Capabilities[capability]
		switch {
		case !given || on == i.Capabilities[capability]:
		case on:
			decided = append(decided, events.CapabilityEnabled{Capability: string(capability)})
		default:
			decided = append(decided, events.CapabilityDisabled{Capability: string(capability)})
		}
	}
	limits, err := i.changeLimits(c)
	if err != nil {
		return nil, err
	}
	decided = append(decided, limits...)
	if c.Review != nil && *c.Review != i.Review {
		decided = append(decided, events.ReviewModeSet{Review: *c.Review})
	}
	return decided, nil
}

// changeLimits returns the events that change limits. It refuses limits out of range with a *LimitError.
func (i Integration) changeLimits(c Change) (decided []events.Event, err error) {
	var outOfRange []string
	for _, limit := range []struct {
		operation   string
		was, wanted *int
	}{
		{posts, &i.PostsPerMinute, c.PostsPerMinute},
		{novels, &i.NovelsPerMinute, c.NovelsPerMinute},
		{lines, &i.LinesPerMinute, c.LinesPerMinute},
	} {
		switch {
		case limit.wanted == nil || *limit.wanted == *limit.was:
		case *limit.wanted < 0 || *limit.wanted > MaxPerMinute:
			outOfRange = append(outOfRange, limit.operation)
		default:
			decided = append(decided, events.RateLimitSet{Operation: limit.operation, PerMinute: *limit.wanted})
		}
	}
	if outOfRange != nil {
		return nil, &LimitError{outOfRange}
	}
	return decided, nil
}

// IssueKey adds an API key to the integration.
func (i Integration) IssueKey(key events.KeyIssued) ([]events.Event, error) {
	if !i.Exists() {
		return nil, ErrNotFound
	}
	if err := checkExpiry(key.IssuedAt, key.ExpiresAt); err != nil {
		return nil, err
	}
	return []events.Event{key}, nil
}

// RevokeKey revokes an API key of the integration.
func (i Integration) RevokeKey(keyID uuid.UUID, reason string, at time.Time) ([]events.Event, error) {
	if _, err := i.Keys.active(keyID); err != nil {
		return nil, err
	}
	return []events.Event{events.KeyRevoked{KeyID: keyID, Reason: reason, RevokedAt: at}}, nil
}

// RotateKey issues a key that replaces another one. The old key stays valid for the overlap, but never beyond its own
// expiry.
func (i Integration) RotateKey(
	keyID uuid.UUID, issued events.KeyIssued, overlap time.Duration,
) ([]events.Event, error) {
	old, err := i.Keys.active(keyID)
	if err != nil {
		return nil, err
	}
	if overlap < 0 {
		return nil, ErrOverlap
	}
	decided, err := i.IssueKey(issued)
	if err != nil {
		return nil, err
	}
	if end := issued.IssuedAt.Add(overlap); old.ExpiresAt == nil || end.Before(*old.ExpiresAt) {
		decided = append(decided, events.KeyExpirySet{KeyID: keyID, ExpiresAt: end})
	}
	return decided, nil
}
