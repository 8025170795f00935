package audit

import (
	"fmt"

	"golang.org/x/mod/sumdb/tlog"
)

// Part is the faulty part of the history.
type Part string

// Parts, and what each means.
const (
	Signature  Part = "signature"  // none of the keys, or no log of the policy, has signed the checkpoint
	Quorum     Part = "quorum"     // too few witnesses of the policy have cosigned the checkpoint
	Root       Part = "root"       // neither entries nor hash tiles have the signed root
	Rewritten  Part = "rewritten"  // the history is not the one that a kept checkpoint covers
	Lost       Part = "lost"       // events are missing that a kept checkpoint of an earlier origin covers
	Uncompared Part = "uncompared" // a kept checkpoint ends before the first event, so it cannot be compared
	Event      Part = "event"      // the event is not the one that was sealed
	Entry      Part = "entry"      // the stored entry was changed, or is missing
	Tile       Part = "tile"       // a hash tile does not belong to the entries
	Missing    Part = "missing"    // the event is missing
	Truncated  Part = "truncated"  // the event and all later ones are missing
	Extra      Part = "extra"      // a line of a bundle for an event that was never sealed there
	Swapped    Part = "swapped"    // two events are swapped
	Replaced   Part = "replaced"   // another event has its log index
	Broken     Part = "broken"     // the event cannot be read
	Stream     Part = "stream"     // versions of a stream have a gap
	Duplicate  Part = "duplicate"  // an earlier event has the same source and id

	// Parts of an event that differ from its stored entry.
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

// Projection returns the part for faults in the tables of a projection, which a replay finds.
func Projection(name string) Part { return Part("projection " + name) }

// Fault is one fault of the history.
type Fault struct {
	Part     Part   `json:"part"`
	LogIndex *int64 `json:"logIndex"` // of the event; null for a fault without an event
	// as in the entry; without an entry, and of an extra event, as in the stored event
	ID     string `json:"id"`
	Source string `json:"source"`
	Count  int64  `json:"count"` // of consecutive events, for missing, truncated and lost; of rows, for projections
	Detail string `json:"detail"`

	found, sealed tlog.Hash // hash of what is stored, and the sealed one; zero: unknown
	undecided     bool      // entry and hash tile differ: the roots will show which was changed
	matchesTile   bool      // the event has the hash of the tile
}

// String returns the fault as one line.
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
