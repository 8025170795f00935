package replay

import (
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"novelgate/aggregates/principal"
	"novelgate/events"
)

// Integration is the past state of an integration.
type Integration struct {
	IntegrationID         uuid.UUID `json:"integrationId"`
	Name                  string    `json:"name"`
	Enabled               bool      `json:"enabled"`
	Capabilities          []string  `json:"capabilities"`
	PostsPerMinute        int       `json:"postsPerMinute"`
	NovelsPerMinute       int       `json:"novelsPerMinute"`
	NovelUpdatesPerMinute *int      `json:"novelUpdatesPerMinute"` // nil: no limit
	LinesPerMinute        int       `json:"linesPerMinute"`        // of bulk imports
	Review                bool      `json:"review"`
	Keys                  []Key     `json:"keys"`
	Trace
}

// Key is the past state of an API key.
type Key struct {
	KeyID     uuid.UUID  `json:"keyId"`
	Revoked   bool       `json:"revoked"`
	ExpiresAt *time.Time `json:"expiresAt"`
}

// IntegrationOf folds the events of an integration's stream, oldest first.
func IntegrationOf(id uuid.UUID, history []events.Recorded) Integration {
	i := principal.FoldIntegration(id, history)
	shown := Integration{
		IntegrationID: id, Name: i.Name, Enabled: i.Enabled, Capabilities: []string{}, PostsPerMinute: i.PostsPerMinute,
		NovelsPerMinute: i.NovelsPerMinute, NovelUpdatesPerMinute: i.NovelUpdatesPerMinute,
		LinesPerMinute: i.LinesPerMinute, Review: i.Review, Keys: []Key{},
	}
	for capability := range i.Capabilities {
		shown.Capabilities = append(shown.Capabilities, string(capability))
	}
	slices.Sort(shown.Capabilities)
	for keyID, key := range i.Keys {
		shown.Keys = append(shown.Keys, Key{keyID, key.Revoked, key.ExpiresAt})
	}
	slices.SortFunc(shown.Keys, func(a, b Key) int { return strings.Compare(a.KeyID.String(), b.KeyID.String()) })
	for n := range history {
		shown.follow(&history[n])
	}
	return shown
}
