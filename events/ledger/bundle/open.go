package bundle

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"novelgate/events/ledger"
)

// open makes the directory ready and returns the manifest that is there. What an earlier export has written is
// evidence: it is added to only if the checkpoint that came with it covers the same history.
func (x *Export) open(
	ctx context.Context, store *ledger.Store, next Manifest, signed ledger.Checkpoint,
) (Manifest, error) {
	before, err := ReadManifest(x.Dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := x.vacant(); err != nil {
			return Manifest{}, err
		}
		if err := next.write(x.Dir); err != nil {
			return Manifest{}, err
		}
		before = next
	case err != nil:
		return Manifest{}, err
	case before.Origin != next.Origin || before.FirstLogIndex != next.FirstLogIndex ||
		before.Complete && before.Size > next.Size:
		return Manifest{},
			fmt.Errorf("%w: %s from log index %d, %d entries", ErrOtherBundle, before.Origin, before.FirstLogIndex, before.Size)
	default:
		if err := x.sameHistory(ctx, store, before, signed); err != nil {
			return Manifest{}, err
		}
	}
	if before.Complete {
		return before, nil // and can be verified as it is until there is a newer one
	}
	// What an interruption leaves can be told from another history by this.
	return before, errors.Join(writeFile(inside(x.Dir, CheckpointFile), signed.Note), syncFile(x.Dir))
}

// vacant fails with ErrOccupied if something is in the directory.
func (x *Export) vacant() error {
	found, err := os.ReadDir(x.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("look into directory: %w", err)
	}
	if len(found) > 0 {
		return fmt.Errorf("%w: %s", ErrOccupied, x.Dir)
	}
	return nil
}

// sameHistory fails with ErrOtherBundle unless the history that is exported is the one of the bundle, grown on.
func (x *Export) sameHistory(
	ctx context.Context, store *ledger.Store, before Manifest, signed ledger.Checkpoint,
) error {
	text, err := os.ReadFile(inside(x.Dir, CheckpointFile))
	switch {
	case errors.Is(err, fs.ErrNotExist) && !before.Complete:
		return nil // it was interrupted before anything else was written
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: its checkpoint is missing, so that nothing tells of which history it is", ErrOtherBundle)
	case err != nil:
		return fmt.Errorf("read checkpoint of the bundle: %w", err)
	}
	err = store.Extends(ctx, signed, text)
	if errors.Is(err, ledger.ErrForked) {
		return fmt.Errorf("%w: %w", ErrOtherBundle, err)
	}
	if err != nil {
		return fmt.Errorf("compare with the bundle that is there: %w", err)
	}
	return nil
}
