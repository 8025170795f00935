package verify

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/maphash"
	"strings"

	"golang.org/x/mod/sumdb/tlog"

	"novelgate/events"
	"novelgate/events/ledger"
	"novelgate/events/ledger/bundle"
)

// chunk is the result of the checks on up to 4096 consecutive events that need no other events.
type chunk struct {
	first, end int64
	leaves     []tlog.Hash // of the entries before the first missing one
	roots      []tlog.Hash // of each full entry bundle
	streams    []version
	names      []uint64 // hash of source and id
	events     int      // compared with their entries
	erased     int      // of events, without their personal part
	erasures   []erasure
	faults     []Fault
	noEvents   bool
}

// version is the stream and the stream version of an event.
type version struct {
	stream  [16]byte
	version uint32
	index   int64
}

// check reads and checks a chunk.
func (v *verification) check(ctx context.Context, first int64) (*chunk, error) {
	count := bundle.Width(first, v.tree.N)
	c := &chunk{first: first, end: first + int64(count), leaves: make([]tlog.Hash, 0, count)}
	entries := make([]*ledger.Entry, count)
	for offset := 0; offset < count; offset += ledger.TileWidth {
		if err := v.checkEntries(ctx, c, entries, offset, min(ledger.TileWidth, count-offset)); err != nil {
			return nil, err
		}
	}
	list, err := v.source.Events(ctx, first, count, v.tree.N)
	var seal *bundle.SealError
	switch {
	case errors.Is(err, ErrEntriesOnly):
		c.noEvents = true
		return c, nil
	case errors.Is(err, ledger.ErrNotFound): // every event of it is missing
	case errors.As(err, &seal):
		c.fault(Seal, seal.LogIndex, nil,
			fmt.Sprintf("%v, so that events %d to %d were not compared with their entries", err, first, c.end-1))
		return c, nil
	case err != nil:
		return nil, err //nolint:wrapcheck // its text is sufficient
	}
	c.compare(entries, list)
	return c, nil
}

// checkEntries reads one entry bundle and its hash tile.
func (v *verification) checkEntries(ctx context.Context, c *chunk, entries []*ledger.Entry, offset, width int) error {
	start := c.first + int64(offset)
	tile := tlog.Tile{H: ledger.TileHeight, L: -1, N: start / ledger.TileWidth, W: width}
	data, err := v.read(ctx, tile)
	if err != nil {
		return err
	}
	raws, splitErr := ledger.SplitBundle(data, width)
	tile.L = 0
	hashes, err := v.read(ctx, tile)
	if err != nil {
		return err
	}
	if len(hashes) != width*tlog.HashSize {
		c.fault(Tile, start, nil, fmt.Sprintf("the hash tile %s has %d bytes", bundle.TilePath(tile), len(hashes)))
		hashes = nil
	}
	complete := len(c.leaves) == offset // no entry was missing so far
	for i, raw := range raws {
		index, leaf := start+int64(i), tlog.RecordHash(raw)
		if complete {
			c.leaves = append(c.leaves, leaf)
		}
		e, err := ledger.ParseEntry(raw)
		inTile := hashes == nil || bytes.Equal(leaf[:], hashes[i*tlog.HashSize:][:tlog.HashSize])
		if err != nil || !inTile {
			c.fault(Entry, index, &e, "the entry does not have the hash that its hash tile has")
			continue
		}
		entries[offset+i] = &e
		c.streams = append(c.streams, version{e.StreamID, e.StreamVersion, index})
		c.names = append(c.names, v.nameOf(e.Source, e.ID))
	}
	if splitErr != nil {
		c.fault(Entry, start+int64(len(raws)), nil, splitErr.Error())
	}
	if complete && len(raws) == ledger.TileWidth {
		c.roots = append(c.roots, rootOf(c.leaves[offset:]))
	}
	return nil
}

// read reads a tile. It returns nil for a missing one.
func (v *verification) read(ctx context.Context, tile tlog.Tile) ([]byte, error) {
	data, err := v.source.Tile(ctx, tile)
	if errors.Is(err, ledger.ErrNotFound) || errors.Is(err, ledger.ErrDamaged) {
		return nil, nil
	}
	return data, err //nolint:wrapcheck // its text is sufficient
}

func (v *verification) nameOf(source, id string) uint64 {
	var h maphash.Hash
	h.SetSeed(v.seed)
	_, _ = h.WriteString(source)
	_ = h.WriteByte(0)
	_, _ = h.WriteString(id)
	return h.Sum64()
}

func (c *chunk) fault(part Part, index int64, e *ledger.Entry, detail string) {
	f := Fault{Part: part, LogIndex: &index, Count: 1, Detail: detail}
	if e != nil {
		f.ID, f.Source = e.ID, e.Source
	}
	c.faults = append(c.faults, f)
}

// compare compares events with the entries of the chunk. It skips nil entries, which were faulty.
func (c *chunk) compare(entries []*ledger.Entry, list []bundle.Event) {
	placed := make([]*bundle.Event, len(entries))
	next, last := 0, c.first-1 // offset of the next event; log index of the last one
	for i := range list {
		e := &list[i]
		at := e.LogIndex - c.first
		switch {
		case e.Broken != nil:
			for next < len(placed)-1 && placed[next] != nil {
				next++
			}
			if placed[next] != nil {
				c.extra(e, c.first+int64(next), "behind it is a line that cannot be read: "+e.Broken.Error())
				continue
			}
			at = int64(next)
			placed[at] = e
		case at < 0 || at >= int64(len(placed)):
			c.extra(e, c.first+int64(next), "it was never sealed here")
			continue
		case placed[at] != nil:
			// Two events have one log index: the one that the entry names is kept.
			stranger := e
			if entries[at] != nil && entries[at].ID == e.ID && entries[at].Source == e.Source {
				placed[at], stranger = e, placed[at]
			}
			c.extra(stranger, e.LogIndex, "another event has its log index")
			continue
		default:
			placed[at] = e
			if e.LogIndex < last {
				c.fault(Swapped, e.LogIndex, entries[at], fmt.Sprintf("it stands behind the event of log index %d", last))
			}
			last = max(last, e.LogIndex)
		}
		next = int(at) + 1
		if next >= len(placed) {
			next = len(placed) - 1
		}
	}
	for i, want := range entries {
		if want != nil {
			c.compareOne(c.first+int64(i), want, placed[i])
		}
	}
}

func (c *chunk) extra(e *bundle.Event, index int64, detail string) {
	c.faults = append(c.faults, Fault{Part: Extra, LogIndex: &index, ID: e.ID, Source: e.Source, Count: 1, Detail: detail})
}

func (c *chunk) compareOne(index int64, want *ledger.Entry, got *bundle.Event) {
	if got == nil {
		c.fault(Missing, index, want, "the ledger has its entry, and the event is not there")
		return
	}
	if got.Broken != nil {
		c.fault(Broken, index, want, "the event cannot be read: "+got.Broken.Error())
		return
	}
	c.events++
	parts, erased := differences(want, got)
	if erased {
		c.erased++
	}
	switch {
	case len(parts) == 0:
		if x, ok := erasureOf(index, got, erased); ok {
			c.erasures = append(c.erasures, x)
		}
	case want.ID != got.ID && (want.StreamID != got.StreamID || int64(want.StreamVersion) != int64(got.StreamVersion)):
		c.fault(Replaced, index, want, fmt.Sprintf("event %q of %q is in its place", got.ID, got.Source))
		c.faults[len(c.faults)-1].foundID, c.faults[len(c.faults)-1].foundSource = got.ID, got.Source
	default:
		c.fault(parts[0], index, want, "not what its entry commits to: "+names(parts))
	}
}

// differences returns the parts of an event that differ from its entry. erased means that the personal part and the
// salt are absent, which is allowed: an erasure removes both. An event without a personal part may have a salt, to
// which its entry does not commit.
func differences(e *ledger.Entry, got *bundle.Event) (parts []Part, erased bool) {
	differs := func(part Part, really bool) {
		if really {
			parts = append(parts, part)
		}
	}
	differs(ID, e.ID != got.ID)
	differs(EventSource, e.Source != got.Source)
	differs(Type, e.Type != got.Type)
	differs(StreamType, e.StreamType != got.StreamType)
	differs(StreamID, e.StreamID != got.StreamID)
	differs(StreamVersion, int64(e.StreamVersion) != int64(got.StreamVersion))
	differs(RecordedAt, e.RecordedAt != got.RecordedAt.UnixMicro())
	differs(Data, !isDigest(e.Data, got.Data))
	switch {
	case e.PersonalForm == ledger.PersonalNone:
		differs(Personal, got.Personal != nil)
	case got.Personal == nil:
		erased = !got.Salt.Valid
		differs(Personal, !erased)
	case e.PersonalForm == ledger.PersonalSalted:
		differs(Personal, !got.Salt.Valid || !isDigest(e.Personal, got.Salt.UUID[:], got.Personal))
	default:
		differs(Personal, got.Salt.Valid || !isDigest(e.Personal, got.Personal))
	}
	metadata, err := events.EncodeMetadata(&got.Metadata)
	differs(Metadata, err != nil || !isDigest(e.Metadata, metadata))
	return parts, erased
}

func isDigest(want []byte, parts ...[]byte) bool {
	data := parts[0]
	if len(parts) > 1 {
		data = bytes.Join(parts, nil)
	}
	sum := sha256.Sum256(data)
	return bytes.Equal(want, sum[:])
}

func names(parts []Part) string {
	texts := make([]string, len(parts))
	for i, part := range parts {
		texts[i] = string(part)
	}
	return strings.Join(texts, ", ")
}
