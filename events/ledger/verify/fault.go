package verify

import "fmt"

// Part is what is wrong.
type Part string

// Parts, and what each means.
const (
	Signature  Part = "signature"  // the checkpoint does not bear a signature of the key
	Root       Part = "root"       // the entries do not have the root that was signed
	Rewritten  Part = "rewritten"  // the history is not the one that a kept checkpoint covers
	Lost       Part = "lost"       // events that a kept checkpoint of an origin covers that the ledger has left
	Uncompared Part = "uncompared" // a kept checkpoint ends in front of the first event: nothing can be said about it
	Entry      Part = "entry"      // the entry was changed, or is missing
	Tile       Part = "tile"       // a hash tile does not belong to the entries
	Seal       Part = "seal"       // nothing tells which event has a log index, and those around it were not compared
	Missing    Part = "missing"    // the event is not there
	Truncated  Part = "truncated"  // the event is not there, nor is any behind it
	Extra      Part = "extra"      // an event is there that was never sealed
	Swapped    Part = "swapped"    // two events have changed places
	Replaced   Part = "replaced"   // another event is in its place
	Broken     Part = "broken"     // the event cannot be read
	Stream     Part = "stream"     // versions of a stream have a gap
	Duplicate  Part = "duplicate"  // source and id were there before

	// These are parts of an event that are not what its entry commits to.
	ID            Part = "id"
	EventSource   Part = "source"
	Type          Part = "type"
	StreamType    Part = "streamType"
	StreamID      Part = "streamId"
	StreamVersion Part = "streamVersion"
	RecordedAt    Part = "recordedAt"
	Data          Part = "data"
	Personal      Part = "personal"
	Metadata      Part = "metadata"
)

// Projection is the part of faults in the tables of a projection, which whoever replays the history finds.
func Projection(name string) Part { return Part("projection " + name) }

// Fault is one thing that is wrong.
type Fault struct {
	Part     Part   `json:"part"`
	LogIndex *int64 `json:"logIndex"` // of the event; null when the fault belongs to none
	ID       string `json:"id"`       // of the event that the entry commits to, or of an extra one
	Source   string `json:"source"`
	Count    int64  `json:"count"` // of events one after another, for missing and truncated; of rows, for projections
	Detail   string `json:"detail"`

	foundID, foundSource string // of what is in its place, for replaced
}

// String says it in a line.
func (f *Fault) String() string {
	text := string(f.Part)
	if f.LogIndex != nil {
		text += fmt.Sprintf(" at log index %d", *f.LogIndex)
	}
	if f.ID != "" {
		text += fmt.Sprintf(", event %q of %q", f.ID, f.Source)
	}
	return text + ": " + f.Detail
}
