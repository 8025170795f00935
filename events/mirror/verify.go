package mirror

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sort"

	"golang.org/x/mod/sumdb/tlog"

	"novelgate/events/eventlog"
	"novelgate/events/ledger"
	"novelgate/events/ledger/audit"
)

var (
	errOrder     = errors.New("another event is in its place")
	errEvent     = errors.New("the event is not the one that was signed")
	errRewritten = errors.New("the origin has signed another event than the one that was mirrored")
	errLost      = errors.New("the origin has lost the event, or has another one in its place")
)

// StoppedError is the reason why a mirror has stopped: it cannot verify or read what the origin delivers. It is an
// eventlog.ErrBlocked.
type StoppedError struct {
	LogIndex int64 // of the first event that is wrong, or not verified
	Reason   error
}

func (e *StoppedError) Error() string { return fmt.Sprintf("log index %d: %v", e.LogIndex, e.Reason) }

// Unwrap returns eventlog.ErrBlocked and the reason.
func (e *StoppedError) Unwrap() []error { return []error{eventlog.ErrBlocked, e.Reason} }

// locate returns the error of a batch that is not part of the signed tree. It names the first event that differs, in
// the batch or before it.
func (m *Mirror) locate(
	ctx context.Context, from audit.Source, edge *ledger.Edge, c ledger.Checkpoint, leaves []tlog.Hash,
) error {
	hashes := audit.Hashes(ctx, from, c.Tree)
	before := tlog.Tree{N: edge.Size(), Hash: edge.Root()}
	if err := ledger.Extends(c.Tree, before, hashes); errors.Is(err, ledger.ErrForked) {
		return m.rewritten(ctx, from, c, err)
	}
	indexes := make([]int64, len(leaves))
	for i := range leaves {
		indexes[i] = tlog.StoredHashIndex(0, edge.Size()+int64(i))
	}
	signed, err := hashes.ReadHashes(indexes)
	if err != nil {
		return fmt.Errorf("read the leaves that were signed: %w", err)
	}
	for i := range leaves {
		if leaves[i] != signed[i] {
			return &StoppedError{LogIndex: edge.Size() + int64(i), Reason: errEvent}
		}
	}
	// No leaf differs now, so the tiles of the origin changed between two reads.
	return &StoppedError{LogIndex: edge.Size(), Reason: ledger.ErrForked}
}

// missing returns a StoppedError if err means that a source lacks events or tiles that its checkpoint covers, or has
// other tiles. If the origin has also lost mirrored events, the StoppedError names the first of them. missing returns
// any other error unchanged.
func (m *Mirror) missing(ctx context.Context, from audit.Source, edge *ledger.Edge, err error) error {
	switch {
	case errors.Is(err, ledger.ErrNotFound):
		if m.inBundles(edge.Size()) {
			break // what a bundle lacks, the origin may have
		}
		if err := m.wantKept(ctx, from, 0, edge.Size()); err != nil {
			return err
		}
	case !errors.Is(err, audit.ErrTiles):
		return err
	}
	return &StoppedError{LogIndex: edge.Size(), Reason: err}
}

// compare compares the log with a checkpoint that covers no further events.
func (m *Mirror) compare(ctx context.Context, from audit.Source, edge *ledger.Edge, c ledger.Checkpoint) error {
	if c.Tree.N == edge.Size() {
		if c.Tree.Hash != edge.Root() {
			return m.rewritten(ctx, from, c, ledger.ErrForked)
		}
		return nil
	}
	// An older checkpoint may be a cached one, or that of an origin that was set back.
	sealed, err := m.store.Tree(ctx)
	if err == nil && sealed.N >= c.Tree.N {
		err = ledger.Extends(sealed, c.Tree, m.store.Hashes(ctx, sealed))
	}
	if errors.Is(err, ledger.ErrForked) {
		return m.rewritten(ctx, from, c, err)
	}
	if err != nil {
		return err
	}
	return m.wantKept(ctx, from, c.Tree.N, edge.Size())
}

// rewritten returns the StoppedError for a log that differs from a signed tree. It names the first sealed event that
// differs.
func (m *Mirror) rewritten(ctx context.Context, from audit.Source, c ledger.Checkpoint, reason error) error {
	sealed, err := m.store.Tree(ctx)
	if err != nil {
		return err
	}
	index, err := ledger.CommonEntries(c.Tree, sealed, audit.Hashes(ctx, from, c.Tree), m.store.Hashes(ctx, sealed))
	if err != nil {
		return errors.Join(reason, err)
	}
	return &StoppedError{LogIndex: index, Reason: fmt.Errorf("%w: %w", errRewritten, reason)}
}

// wantKept fails with a StoppedError unless the origin still has the mirrored events from log index first up to size,
// as far as they are sealed. It compares leaves with a binary search: after the first event that the origin has lost,
// all events differ.
func (m *Mirror) wantKept(ctx context.Context, from audit.Source, first, size int64) error {
	sealed, err := m.store.Tree(ctx)
	if err != nil {
		return err
	}
	if size = min(size, sealed.N); first >= size {
		return nil
	}
	lost := func(index int64) bool {
		if err != nil {
			return false // the search ends without further reads
		}
		var differs bool
		differs, err = m.leafDiffers(ctx, from, index)
		return differs
	}
	if !lost(size-1) || err != nil {
		return err
	}
	index := first + int64(sort.Search(int(size-first), func(i int) bool { return lost(first + int64(i)) }))
	if err != nil {
		return err
	}
	return &StoppedError{LogIndex: index, Reason: errLost}
}

// leafDiffers reports whether the origin lacks the leaf of a sealed event, or has another one in its lowest hash tiles.
func (m *Mirror) leafDiffers(ctx context.Context, from audit.Source, index int64) (bool, error) {
	tile := tlog.Tile{H: ledger.TileHeight, N: index / ledger.TileWidth, W: int(index%ledger.TileWidth) + 1}
	ours, err := m.store.Tile(ctx, tile)
	if err != nil {
		return false, err
	}
	theirs, err := from.Tile(ctx, tile)
	if errors.Is(err, ledger.ErrNotFound) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	last := (tile.W - 1) * tlog.HashSize
	return len(theirs) < len(ours) || !bytes.Equal(theirs[last:][:tlog.HashSize], ours[last:]), nil
}
