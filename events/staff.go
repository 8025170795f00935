package events

import (
	"time"

	"github.com/google/uuid"
)

// PersonKeyIssued records a new API key of a staff user. The key itself is shown once and never stored. The first key
// creates the staff user.
type PersonKeyIssued struct {
	Name      string     `json:"name"`
	Role      string     `json:"role"` // "staff" or "auditor"
	KeyID     uuid.UUID  `json:"keyId"`
	Prefix    string     `json:"prefix"`  // first characters of the key, to recognise it by
	SHA256    []byte     `json:"keyHash"` // base64 in JSON
	IssuedAt  time.Time  `json:"issuedAt"`
	ExpiresAt *time.Time `json:"expiresAt,omitzero"`
}

// Type implements Event.
func (PersonKeyIssued) Type() string { return "person.key_issued.v1" }
func (PersonKeyIssued) isEvent()     {}

// PersonKeyRevoked records that an API key of a staff user was revoked.
type PersonKeyRevoked struct {
	KeyID     uuid.UUID `json:"keyId"`
	Reason    string    `json:"reason,omitempty"`
	RevokedAt time.Time `json:"revokedAt"`
}

// Type implements Event.
func (PersonKeyRevoked) Type() string { return "person.key_revoked.v1" }
func (PersonKeyRevoked) isEvent()     {}

// ProjectionEventSkipped records that staff made a projection skip an event that it could not apply. A rebuild skips
// the same event.
type ProjectionEventSkipped struct {
	Projection  string `json:"projection"`
	EventID     string `json:"eventId"`
	EventSource string `json:"eventSource"` // (eventId, eventSource) identifies the event
	EventType   string `json:"eventType"`
	LogIndex    int64  `json:"logIndex"`
	// Reason is given by staff. The error is not recorded: it may quote personal data, which could not be erased here.
	Reason string `json:"reason"`
}

// Type implements Event.
func (ProjectionEventSkipped) Type() string { return "projection.event_skipped.v1" }
func (ProjectionEventSkipped) isEvent()     {}
