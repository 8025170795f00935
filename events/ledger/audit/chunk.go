package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/mod/sumdb/tlog"

	"novelgate/events/eventlog"
	"novelgate/events/ledger"
)

// chunk is the result of those checks on up to 4096 consecutive log indexes that need no other events.
type chunk struct {
	first, end  int64
	entryLeaves leaves  // from the entries
	tileLeaves  leaves  // from the lowest hash tiles
	entries     []entry // entries that are as sealed
	tilesDiffer bool    // entries and hash tiles differ
	events      int     // number of events compared with entries or hash tiles
	erased      int     // number of these events without their personal part
	erasures    []erasure
	faults      []Fault
	noEvents    bool // the source has entries only
}

// leaves are the leaves that a chunk adds to a tree.
type leaves struct {
	hashes []tlog.Hash // up to the first missing one
	roots  []tlog.Hash // roots of the full tiles of these hashes
}

// entry is an entry with its log index.
type entry struct {
	*ledger.Entry
	index int64
}

// check reads and checks a chunk.
func (v *verification) check(ctx context.Context, first int64) (*chunk, error) {
	count := chunkLength(first, v.signed.N)
	c := &chunk{first: first, end: first + int64(count)}
	stored, parsed, err := v.storedEntries(ctx, first, count)
	eventsOnly := errors.Is(err, ErrEventsOnly)
	if err != nil && !eventsOnly {
		return nil, err
	}
	tiles, err := v.hashes(ctx, c, count)
	if err != nil {
		return nil, err
	}
	list, err := v.Source.Events(ctx, first, count, v.signed.N)
	switch {
	case errors.Is(err, ErrEntriesOnly):
		c.noEvents = true
	case errors.Is(err, ledger.ErrNotFound): // every event of the chunk is missing
	case err != nil:
		return nil, err
	}
	placed := c.place(parsed, list)
	for i := range count {
		s := slot{index: first + int64(i), stored: stored[i], entry: parsed[i], event: placed[i], tile: tiles[i]}
		s.derive(eventsOnly)
		if s.stored != nil && len(c.entryLeaves.hashes) == i {
			c.entryLeaves.hashes = append(c.entryLeaves.hashes, s.leaf)
		}
		switch {
		case c.noEvents, s.event == nil, s.event.Broken != nil:
			// Consecutive missing entries of an entry bundle are one fault, and those of a source without entries none.
			reported := s.stored == nil && (eventsOnly || i%ledger.TileWidth > 0 && stored[i-1] == nil)
			c.checkEntry(&s, reported)
		case eventsOnly:
			c.checkEvent(&s)
		default:
			c.compare(&s)
		}
		if s.sealed() {
			c.entries = append(c.entries, entry{s.entry, s.index})
		}
	}
	c.entryLeaves.computeRoots(&leaves{})
	c.tileLeaves.computeRoots(&c.entryLeaves)
	return c, nil
}

// computeRoots computes the roots of the full tiles. It takes the root of a tile that is equal in known from there.
func (l *leaves) computeRoots(known *leaves) {
	for n := range len(l.hashes) / ledger.TileWidth {
		begin, end := n*ledger.TileWidth, (n+1)*ledger.TileWidth
		tile := l.hashes[begin:end]
		if n < len(known.roots) && slices.Equal(tile, known.hashes[begin:end]) {
			l.roots = append(l.roots, known.roots[n])
		} else {
			l.roots = append(l.roots, rootOf(tile))
		}
	}
}

// storedEntries reads and parses the entries of a chunk; nil for a missing entry or one that cannot be parsed. It fails
// with ErrEventsOnly if the source has no entries.
func (v *verification) storedEntries(ctx context.Context, first int64, count int) (
	stored [][]byte, parsed []*ledger.Entry, err error,
) {
	stored, parsed = make([][]byte, count), make([]*ledger.Entry, count)
	for offset := 0; offset < count; offset += ledger.TileWidth {
		tile := tileAt(entryBundles, first+int64(offset), first+int64(count))
		data, err := read(ctx, v.Source, tile)
		if err != nil {
			return stored, parsed, err
		}
		raws, _ := ledger.SplitBundle(data, tile.W) // entries after a fault count as missing
		for i, raw := range raws {
			if len(raw) == 0 {
				continue // the event was missing when the bundle was exported
			}
			stored[offset+i] = raw
			if e, err := ledger.ParseEntry(raw); err == nil {
				parsed[offset+i] = &e
			}
		}
	}
	return stored, parsed, nil
}

// hashes reads the hashes of a chunk from the lowest hash tiles; nil for a missing one.
func (v *verification) hashes(ctx context.Context, c *chunk, count int) ([]*tlog.Hash, error) {
	hashes := make([]*tlog.Hash, count)
	for offset := 0; offset < count; offset += ledger.TileWidth {
		tile := tileAt(0, c.first+int64(offset), c.end)
		data, err := read(ctx, v.Source, tile)
		if err != nil {
			return nil, err
		}
		if len(data) != tile.W*tlog.HashSize {
			c.fault(Fault{Part: Tile, Detail: fmt.Sprintf("the hash tile %s has %d bytes", tilePath(tile), len(data))},
				c.first+int64(offset), nil)
			continue
		}
		for i := range tile.W {
			hash := tlog.Hash(data[i*tlog.HashSize:][:tlog.HashSize])
			hashes[offset+i] = &hash
			if len(c.tileLeaves.hashes) == offset+i {
				c.tileLeaves.hashes = append(c.tileLeaves.hashes, hash)
			}
		}
	}
	return hashes, nil
}

// entryBundles is the level of entry bundles, below that of the lowest tiles.
const entryBundles = -1

// tileAt returns the tile or the entry bundle that begins with a log index of a tree of this size.
func tileAt(level int, start, size int64) tlog.Tile {
	return tlog.Tile{
		H: ledger.TileHeight, L: level, N: start / ledger.TileWidth, W: int(min(ledger.TileWidth, size-start)),
	}
}

// read reads a tile. It returns nil for a missing one.
func read(ctx context.Context, source Source, tile tlog.Tile) ([]byte, error) {
	data, err := source.Tile(ctx, tile)
	if errors.Is(err, ledger.ErrNotFound) || errors.Is(err, ledger.ErrDamaged) {
		return nil, nil
	}
	return data, err
}

// slot is all data of a source about one log index.
type slot struct {
	index  int64
	stored []byte        // the entry; nil: missing
	entry  *ledger.Entry // the parsed entry; nil: missing, or cannot be parsed
	event  *StoredEvent  // nil: missing
	tile   *tlog.Hash    // hash in the lowest hash tile; nil: missing

	leaf    tlog.Hash // hash of the stored entry
	derived []byte    // the entry, encoded from the event; nil: none
}

// derive encodes the entry of the event. For an erased event, it takes the digest of the personal part from the stored
// entry. If the source has only events, the derived entry also serves as the stored one.
func (s *slot) derive(eventsOnly bool) {
	if s.event != nil && s.event.Broken == nil {
		row := &s.event.Row
		if s.entry != nil && row.Personal == nil && !row.Salt.Valid {
			addDigest(row, s.entry)
		}
		s.derived, _ = ledger.AppendEntry(nil, row) // nil for an event that is too large: it was never sealed
	}
	if eventsOnly && s.derived != nil {
		s.stored = s.derived
		if e, err := ledger.ParseEntry(s.derived); err == nil {
			s.entry = &e
		}
	}
	if s.stored != nil {
		s.leaf = tlog.RecordHash(s.stored)
	}
}

// addDigest adds the digest of the personal part to an erased event, from its entry.
func addDigest(row *eventlog.Row, e *ledger.Entry) {
	if e.PersonalForm != ledger.PersonalNone {
		row.PersonalDigest = append([]byte{byte(e.PersonalForm)}, e.Personal...)
	}
}

// sealed reports whether the entry has the hash in its hash tile. If that is missing, the entry counts as sealed.
func (s *slot) sealed() bool { return s.entry != nil && (s.tile == nil || *s.tile == s.leaf) }

// fault adds a fault of the event or entry with a log index.
func (c *chunk) fault(f Fault, index int64, e *ledger.Entry) {
	f.LogIndex, f.Count = &index, 1
	if e != nil {
		f.ID, f.Source = e.ID, e.Source
	}
	c.faults = append(c.faults, f)
}

// checkEntry reports a missing or broken event, if the source has events, and compares the entry with its hash tile.
// reported: the fault of the entry is reported already.
func (c *chunk) checkEntry(s *slot, reported bool) {
	switch {
	case c.noEvents:
	case s.event == nil:
		e := s.entry
		if !s.sealed() {
			e = nil
		}
		c.fault(Fault{Part: Missing, Detail: "the ledger has its leaf, but the event is missing"}, s.index, e)
		if s.stored == nil {
			return
		}
	default:
		c.fault(Fault{Part: Broken, Detail: "the event cannot be read: " + s.event.Broken.Error()}, s.index, s.entry)
	}
	switch {
	case s.sealed() || reported:
	case s.stored == nil:
		c.fault(Fault{Part: Entry, Detail: "the entry is missing"}, s.index, nil)
	default:
		c.reportTileDifference(s, Entry, "the entry does not have the hash that its hash tile has")
	}
}

// reportTileDifference adds the fault of an entry that differs from its hash tile. The roots show later which of the
// two was changed.
func (c *chunk) reportTileDifference(s *slot, part Part, detail string) {
	c.tilesDiffer = true
	f := Fault{Part: part, Detail: detail, undecided: true, found: s.leaf}
	if s.tile != nil {
		f.sealed = *s.tile
	}
	c.fault(f, s.index, s.entry)
}

// checkEvent compares the entry of an event with its hash tile.
func (c *chunk) checkEvent(s *slot) {
	c.events++
	if !s.sealed() {
		c.reportTileDifference(s, Event, "the event is not the one that was sealed")
		return
	}
	c.addErasure(s)
}

// compare compares an event with its stored entry, and the entry with its hash tile.
func (c *chunk) compare(s *slot) {
	if s.stored != nil && bytes.Equal(s.derived, s.stored) {
		c.checkEvent(s)
		return
	}
	c.events++
	matchesTile := s.tile != nil && s.derived != nil && tlog.RecordHash(s.derived) == *s.tile
	switch {
	case s.stored == nil && !matchesTile && s.tile != nil:
		s.leaf = tlog.RecordHash(s.derived)
		c.reportTileDifference(s, Event, "the event is not the one that was sealed, and its entry is missing")
	case s.stored == nil:
		c.fault(Fault{Part: Entry, ID: s.event.ID, Source: s.event.Source, Detail: "the entry is missing"}, s.index, nil)
	case s.sealed():
		c.reportDifferences(s)
	case matchesTile:
		c.reportTileDifference(s, Entry, "the entry is not that of its event")
		c.faults[len(c.faults)-1].matchesTile = true
	default:
		c.reportTileDifference(s, Entry, "the entry does not have the hash that its hash tile has")
		if s.entry != nil {
			c.reportDifferences(s)
		}
	}
}

// reportDifferences reports an event that differs from its entry.
func (c *chunk) reportDifferences(s *slot) {
	want, got := s.entry, &s.event.Row
	parts := []Part{Event}
	if derived, err := ledger.ParseEntry(s.derived); err == nil {
		parts = differences(want, &derived)
	}
	f := Fault{
		Part: parts[0], Detail: "not what its entry commits to: " + names(parts),
		found: tlog.RecordHash(s.derived), sealed: s.leaf,
	}
	if want.ID != got.ID && (want.StreamID != got.StreamID || int64(want.StreamVersion) != int64(got.StreamVersion)) {
		f.Part, f.Detail = Replaced, fmt.Sprintf("event %q of %q is in its place", got.ID, got.Source)
	}
	c.fault(f, s.index, want)
}

// addErasure adds an event that was erased, or that records an erasure, to the erasures. The event is as sealed.
func (c *chunk) addErasure(s *slot) {
	erased := s.event.Personal == nil && !s.event.Salt.Valid && s.entry.PersonalForm != ledger.PersonalNone
	if erased {
		c.erased++
	}
	if x, ok := erasureOf(s.index, s.event, erased); ok {
		c.erasures = append(c.erasures, x)
	}
}

// place assigns events to their log indexes. It reports events that have no place, and those out of order. A broken
// event has no log index: it takes the next free place after the event before it. All this is for bundles: in a
// database the log index is the primary key.
func (c *chunk) place(entries []*ledger.Entry, list []StoredEvent) []*StoredEvent {
	placed := make([]*StoredEvent, len(entries))
	next, last := 0, c.first-1 // offset of the next event; log index of the last event
	for i := range list {
		e := &list[i]
		offset := e.LogIndex - c.first
		switch {
		case e.Broken != nil:
			for next < len(placed)-1 && placed[next] != nil {
				next++
			}
			if placed[next] != nil {
				c.reportExtra(e, c.first+int64(next), "a line after it cannot be read: "+e.Broken.Error())
				continue
			}
			offset = int64(next)
			placed[offset] = e
		case offset < 0 || offset >= int64(len(placed)):
			c.reportExtra(e, c.first+int64(next), "it was never sealed at this place")
			continue
		case placed[offset] != nil:
			// Two events have one log index: keep the one that matches the entry.
			stranger := e
			if entries[offset] != nil && entries[offset].ID == e.ID && entries[offset].Source == e.Source {
				placed[offset], stranger = e, placed[offset]
			}
			c.reportExtra(stranger, e.LogIndex, "another event has its log index")
			continue
		default:
			placed[offset] = e
			if e.LogIndex < last {
				c.fault(Fault{Part: Swapped, Detail: fmt.Sprintf("it stands behind the event of log index %d", last)},
					e.LogIndex, entries[offset])
			}
			last = max(last, e.LogIndex)
		}
		next = min(int(offset)+1, len(placed)-1)
	}
	return placed
}

func (c *chunk) reportExtra(e *StoredEvent, index int64, detail string) {
	c.fault(Fault{Part: Extra, ID: e.ID, Source: e.Source, Detail: detail}, index, nil)
}

// differences returns the parts in which two entries differ.
func differences(want, got *ledger.Entry) (parts []Part) {
	for _, d := range []struct {
		part Part
		same bool
	}{
		{ID, want.ID == got.ID},
		{EventSource, want.Source == got.Source},
		{Type, want.Type == got.Type},
		{StreamType, want.StreamType == got.StreamType},
		{StreamID, want.StreamID == got.StreamID},
		{StreamVersion, want.StreamVersion == got.StreamVersion},
		{RecordedAt, want.RecordedAt == got.RecordedAt},
		{Data, bytes.Equal(want.Data, got.Data)},
		{Personal, want.PersonalForm == got.PersonalForm && bytes.Equal(want.Personal, got.Personal)},
		{Metadata, bytes.Equal(want.Metadata, got.Metadata)},
	} {
		if !d.same {
			parts = append(parts, d.part)
		}
	}
	return parts
}

func names(parts []Part) string {
	texts := make([]string, len(parts))
	for i, part := range parts {
		texts[i] = string(part)
	}
	return strings.Join(texts, ", ")
}
