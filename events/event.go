// Package events defines the events of Novelgate: one plain struct per event with its literal, versioned type name, and
// the envelope in which it is stored.
//
// A stored event is never edited. To change the shape of an event, add a struct with the next version in its name and
// an upcaster from the old one (see registry.go). The golden files under testdata hold the stored bytes of every
// version.
//
// CONTRIBUTING.md lists the steps to add an event.
package events

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"time"

	"github.com/google/uuid"
)

// Event is one of the structs of this package.
//
//sumtype:decl
type Event interface {
	// Type returns the literal, versioned name under which the event is stored, such as "novel.created.v1".
	Type() string
	isEvent()
}

// Names of the kinds of aggregate, as stored in stream_type.
const (
	NovelStream       = "novel"
	ThreadStream      = "thread"
	PostStream        = "post"
	IntegrationStream = "integration"
	PersonStream      = "person"
	AuthorStream      = "author"
	ProjectionStream  = "projection"
)

// withIntegration is implemented by events whose field for the integration is not stored: Decode sets it from the
// source of the event.
type withIntegration interface {
	setIntegration(id uuid.UUID)
}

// withPersonal is implemented by events with personal data. The personal part is stored in its own column, so that it
// can be erased.
type withPersonal interface {
	// personal returns the erasable part, nil after erasure.
	personal() any
}

// Personal returns the personal part of an event, nil when it has none or was erased.
func Personal(e Event) any {
	if carrier, ok := e.(withPersonal); ok {
		return carrier.personal()
	}
	return nil
}

// personalDecoder is the decoding side of withPersonal.
type personalDecoder interface {
	// personalTarget returns the pointer into which the erasable part is decoded.
	personalTarget() any
}

// Position is a place between events of the log: the number of events before it. The event with log index i is between
// the positions i and i+1. The zero Position is the start of the log.
type Position int64

// Recorded is an event together with its envelope.
type Recorded struct {
	LogIndex      int64 // 0, 1, 2, … in the log; zero until the event was read back
	StreamType    string
	StreamID      uuid.UUID
	StreamVersion int    // 1, 2, 3, … without gaps in a stream
	ID            string // CloudEvents id: the Idempotency-Key of the command, or a generated id
	Source        string // CloudEvents source; (ID, Source) is unique
	Event         Event
	Salt          uuid.NullUUID
	Metadata      Metadata
	RecordedAt    time.Time // zero until read back from the log
}

// End returns the position after the event.
func (r *Recorded) End() Position { return Position(r.LogIndex + 1) }

// Metadata says who caused an event, and with which request.
type Metadata struct {
	Actor     string    `json:"actor"`               // "integration:<id>", "staff:<name>" or "service"
	KeyID     uuid.UUID `json:"keyId,omitzero"`      // the API key that was used
	RequestID string    `json:"requestId,omitempty"` // X-Request-Id of the command
	// shared by all events of one operation; omitted when it equals the request id
	Correlation string `json:"correlation,omitempty"`
	// on side effects: source of the command's own event
	Causation   string      `json:"causation,omitempty"`
	Batch       uuid.UUID   `json:"batch"`                 // random id of the append, set by eventlog.Queue
	Fingerprint Fingerprint `json:"fingerprint,omitzero"`  // of the normalised command, keyed with the salt
	TraceParent string      `json:"traceparent,omitempty"` // W3C trace context of the request
}

// IntegrationActor names an integration as the actor of events.
func IntegrationActor(id uuid.UUID) string { return "integration:" + id.String() }

// Fingerprint identifies a normalised command without revealing it: SHA-256 over the event's salt and the command, cut
// to 128 bits. After erasure the salt is gone, so nobody can test a guess against it. The zero Fingerprint means none.
type Fingerprint [16]byte

// FingerprintOf returns the fingerprint of a command in its canonical form.
func FingerprintOf(salt uuid.UUID, canonical []byte) Fingerprint {
	hash := sha256.New()
	hash.Write(salt[:])
	hash.Write(canonical)
	return Fingerprint(hash.Sum(nil)[:16])
}

// String renders a fingerprint in base64url.
func (f Fingerprint) String() string { return base64.RawURLEncoding.EncodeToString(f[:]) }

// MarshalText renders a fingerprint as String does.
func (f Fingerprint) MarshalText() ([]byte, error) {
	return base64.RawURLEncoding.AppendEncode(nil, f[:]), nil
}

var errFingerprint = errors.New("is not a fingerprint")

// UnmarshalText parses what MarshalText renders.
func (f *Fingerprint) UnmarshalText(text []byte) error {
	decoded, err := base64.RawURLEncoding.Strict().DecodeString(string(text))
	if err != nil || len(decoded) != len(f) {
		return errFingerprint
	}
	*f = Fingerprint(decoded)
	return nil
}

// Differs reports whether a command, in its canonical form, differs from the recorded command with this fingerprint and
// salt. It returns false after erasure, or when no fingerprint was stored.
func (f Fingerprint) Differs(salt uuid.NullUUID, canonical []byte) bool {
	return salt.Valid && f != Fingerprint{} && f != FingerprintOf(salt.UUID, canonical)
}
