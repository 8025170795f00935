package events

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
)

// ErrUnknownType is returned for an event type that this version of the program does not know, because a newer version
// wrote it.
var ErrUnknownType = errors.New("unknown event type")

// Stored is an event as the log holds it: its type name and the exact bytes.
type Stored struct {
	Type        string
	Data        []byte        // JSON
	Personal    []byte        // JSON; nil when the event has no personal part or it was erased
	Integration uuid.NullUUID // of the source of the event; Encode does not set it
}

// typeRegistry decodes every event type that was ever stored.
type typeRegistry struct {
	decoders  map[string]func(Stored) (Event, error)
	upcasters map[string]func(Stored) (Stored, error)
}

// newRegistry lists every event type, one line each. When a type gets a new version, an upcaster replaces its line:
//
//	r.upcasters["novel.created.v1"] = novelCreatedV1ToV2
func newRegistry() typeRegistry {
	r := typeRegistry{
		decoders: map[string]func(Stored) (Event, error){}, upcasters: map[string]func(Stored) (Stored, error){},
	}
	register[NovelCreated](r)
	register[NovelUpdated](r)
	register[NovelPublished](r)
	register[NovelApproved](r)
	register[NovelRejected](r)
	register[NovelBarred](r)
	register[NovelUnbarred](r)
	register[ThreadOpened](r)
	register[PostImported](r)
	register[IntegrationRegistered](r)
	register[IntegrationRenamed](r)
	register[IntegrationEnabled](r)
	register[IntegrationDisabled](r)
	register[CapabilityEnabled](r)
	register[CapabilityDisabled](r)
	register[RateLimitSet](r)
	register[ReviewModeSet](r)
	register[KeyIssued](r)
	register[KeyExpirySet](r)
	register[KeyRevoked](r)
	register[PersonKeyIssued](r)
	register[PersonKeyRevoked](r)
	register[AuthorLinked](r)
	register[AuthorUnlinked](r)
	register[AuthorBlocked](r)
	register[AuthorUnblocked](r)
	register[AuthorPostsHidden](r)
	register[AuthorPostsRestored](r)
	register[AuthorErased](r)
	register[PostHidden](r)
	register[PostRestored](r)
	register[PostEdited](r)
	register[PostWithdrawn](r)
	register[PostReported](r)
	register[PostReportsDismissed](r)
	register[ProjectionEventSkipped](r)
	return r
}

var registry = newRegistry()

// Types returns the type names that Decode understands without an upcaster, in no particular order.
func Types() []string {
	return slices.Collect(maps.Keys(registry.decoders))
}

// Encode turns an event into the bytes that the log stores.
func Encode(e Event) (Stored, error) {
	data, err := marshal(e)
	if err != nil {
		return Stored{}, fmt.Errorf("encode %s: %w", e.Type(), err)
	}
	stored := Stored{Type: e.Type(), Data: data}
	if part := Personal(e); part != nil {
		if stored.Personal, err = marshal(part); err != nil {
			return Stored{}, fmt.Errorf("encode personal part of %s: %w", e.Type(), err)
		}
	}
	return stored, nil
}

// EncodeMetadata returns metadata as canonical JSON. The ledger commits to these bytes.
func EncodeMetadata(m *Metadata) ([]byte, error) {
	encoded, err := marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode metadata: %w", err)
	}
	return encoded, nil
}

var errMetadata = errors.New("is not the metadata of an event in canonical JSON")

// DecodeMetadata is the reverse of EncodeMetadata.
func DecodeMetadata(encoded []byte) (m Metadata, err error) {
	if err := json.Unmarshal(encoded, &m); err != nil {
		return m, fmt.Errorf("decode metadata: %w", err)
	}
	if again, err := EncodeMetadata(&m); err != nil || !bytes.Equal(again, encoded) {
		return m, errMetadata
	}
	return m, nil
}

func marshal(v any) ([]byte, error) { return json.Marshal(v, json.Deterministic(true)) }

// Decode turns stored bytes into the newest version of the event. It fails with ErrUnknownType when the type name is
// not registered. It ignores unknown members: a newer replica may have added them.
func Decode(s Stored) (Event, error) { return registry.decode(s) }

// DecodeAs is Decode for an event that must be of one type.
func DecodeAs[E Event](s Stored) (e E, err error) {
	event, err := Decode(s)
	if err != nil {
		return e, err
	}
	e, ok := event.(E)
	if !ok {
		return e, fmt.Errorf("%s is recorded as %s", e.Type(), s.Type)
	}
	return e, nil
}

func (r typeRegistry) decode(s Stored) (Event, error) {
	// Each upcaster leads to a later version, so the loop ends.
	for upcast, ok := r.upcasters[s.Type]; ok; upcast, ok = r.upcasters[s.Type] {
		from := s.Type
		var err error
		if s, err = upcast(s); err != nil {
			return nil, fmt.Errorf("upcast %s: %w", from, err)
		}
	}
	decode, ok := r.decoders[s.Type]
	if !ok {
		return nil, fmt.Errorf("%w: %q", ErrUnknownType, s.Type)
	}
	return decode(s)
}

func register[E Event](r typeRegistry) {
	var zero E
	r.decoders[zero.Type()] = func(s Stored) (Event, error) {
		var event E
		if err := json.Unmarshal(s.Data, &event); err != nil {
			return nil, fmt.Errorf("decode %s: %w", s.Type, err)
		}
		if p, ok := any(&event).(withIntegration); ok {
			p.setIntegration(s.Integration.UUID)
		}
		if p, ok := any(&event).(personalDecoder); ok && s.Personal != nil {
			if err := json.Unmarshal(s.Personal, p.personalTarget()); err != nil {
				return nil, fmt.Errorf("decode personal part of %s: %w", s.Type, err)
			}
		}
		return event, nil
	}
}
