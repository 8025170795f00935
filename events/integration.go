package events

import (
	"time"

	"github.com/google/uuid"
)

// IntegrationRegistered records the creation of an integration. It starts enabled and without capabilities.
type IntegrationRegistered struct {
	Name         string    `json:"name"`
	RegisteredAt time.Time `json:"registeredAt"`
}

// Type implements Event.
func (IntegrationRegistered) Type() string { return "integration.registered.v1" }
func (IntegrationRegistered) isEvent()     {}

// IntegrationRenamed records the new name of an integration.
type IntegrationRenamed struct {
	Name string `json:"name"`
}

// Type implements Event.
func (IntegrationRenamed) Type() string { return "integration.renamed.v1" }
func (IntegrationRenamed) isEvent()     {}

// IntegrationEnabled records that requests of a disabled integration are accepted again.
type IntegrationEnabled struct{}

// Type implements Event.
func (IntegrationEnabled) Type() string { return "integration.enabled.v1" }
func (IntegrationEnabled) isEvent()     {}

// IntegrationDisabled records that all requests of an integration are refused, whatever its capabilities.
type IntegrationDisabled struct{}

// Type implements Event.
func (IntegrationDisabled) Type() string { return "integration.disabled.v1" }
func (IntegrationDisabled) isEvent()     {}

// CapabilityEnabled records that an integration may use an endpoint: "novels", "posts" or "import".
type CapabilityEnabled struct {
	Capability string `json:"capability"`
}

// Type implements Event.
func (CapabilityEnabled) Type() string { return "integration.capability_enabled.v1" }
func (CapabilityEnabled) isEvent()     {}

// CapabilityDisabled records that an integration may no longer use an endpoint.
type CapabilityDisabled struct {
	Capability string `json:"capability"`
}

// Type implements Event.
func (CapabilityDisabled) Type() string { return "integration.capability_disabled.v1" }
func (CapabilityDisabled) isEvent()     {}

// RateLimitSet records a limit of an integration per minute: of creations ("novels"), of requests ("posts") or
// of the lines of bulk imports ("lines").
type RateLimitSet struct {
	Operation string `json:"operation"`
	PerMinute int    `json:"perMinute"`
}

// Type implements Event.
func (RateLimitSet) Type() string { return "integration.rate_limit_set.v1" }
func (RateLimitSet) isEvent()     {}

// ReviewModeSet records whether the integration's new novels are pending until staff approve them.
type ReviewModeSet struct {
	Review bool `json:"review"`
}

// Type implements Event.
func (ReviewModeSet) Type() string { return "integration.review_mode_set.v1" }
func (ReviewModeSet) isEvent()     {}

// KeyIssued records a new API key. The key itself is shown once and never stored.
type KeyIssued struct {
	KeyID     uuid.UUID  `json:"keyId"`
	Prefix    string     `json:"prefix"`  // first characters of the key, to recognise it by
	SHA256    []byte     `json:"keyHash"` // base64 in JSON
	IssuedAt  time.Time  `json:"issuedAt"`
	ExpiresAt *time.Time `json:"expiresAt,omitzero"`
}

// Type implements Event.
func (KeyIssued) Type() string { return "integration.key_issued.v1" }
func (KeyIssued) isEvent()     {}

// KeyExpirySet records the expiry of an API key that was rotated.
type KeyExpirySet struct {
	KeyID     uuid.UUID `json:"keyId"`
	ExpiresAt time.Time `json:"expiresAt"`
}

// Type implements Event.
func (KeyExpirySet) Type() string { return "integration.key_expiry_set.v1" }
func (KeyExpirySet) isEvent()     {}

// KeyRevoked records that an API key was revoked.
type KeyRevoked struct {
	KeyID     uuid.UUID `json:"keyId"`
	Reason    string    `json:"reason,omitempty"`
	RevokedAt time.Time `json:"revokedAt"`
}

// Type implements Event.
func (KeyRevoked) Type() string { return "integration.key_revoked.v1" }
func (KeyRevoked) isEvent()     {}
