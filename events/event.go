// Package events defines the events of Novelgate: one plain struct per event with its literal, versioned type name, and
// the envelope in which it is stored.
//
// A stored event is never edited. To change the shape of an event, add a struct with the next version in its name and
// an upcaster from the old one (see registry.go). The golden files under testdata hold the stored bytes of every
// version.
//
// To add an event: one struct here, one line in the registry, one golden file.
package events

import "github.com/google/uuid"

// Event is one of the structs of this package.
//
//sumtype:decl
type Event interface {
	// Type returns the literal, versioned name under which the event is stored, such as "novel.created.v1".
	Type() string
	sealed()
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

// ofIntegration is implemented by events that repeat the integration in their source, which is not stored again.
type ofIntegration interface {
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

// erasable is the decoding side of withPersonal.
type erasable interface {
	// personalTarget returns the pointer into which the erasable part is decoded.
	personalTarget() any
}
