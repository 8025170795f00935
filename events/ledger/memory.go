package ledger

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// readNote reads a checkpoint from a file; ok is false if there is none.
func readNote(file string) (c Checkpoint, ok bool, err error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return Checkpoint{}, false, nil
	}
	if err != nil {
		return Checkpoint{}, false, fmt.Errorf("read checkpoint file: %w", err)
	}
	if c, err = parseCheckpoint(text); err != nil {
		return Checkpoint{}, false, fmt.Errorf("%s: %w", file, err)
	}
	return c, true, nil
}
