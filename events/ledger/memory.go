package ledger

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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

// writeFile replaces a file: a reader, or a crash, sees the old one or the new one.
func writeFile(file string, data []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+".*")
	if err != nil {
		return fmt.Errorf("create file beside %s: %w", file, err)
	}
	defer os.Remove(f.Name()) //nolint:errcheck // it has its new name, unless something failed
	_, err = f.Write(data)
	if err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	if err := os.Rename(f.Name(), file); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return nil
}
