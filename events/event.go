package events

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

// withPersonal is implemented by events that carry something that identifies or was written by a person. It is
// stored apart from the rest, so that it can be erased.
type withPersonal interface {
	// personal returns the erasable part, nil after erasure.
	personal() any
}

// Personal returns what an event carries that identifies or was written by a person; nil when there is nothing, or
// nothing any more.
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
