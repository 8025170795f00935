package bundle

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Personal data is in a bundle: it is for its owner's eyes.
const (
	dirMode  fs.FileMode = 0o700
	fileMode fs.FileMode = 0o600
)

// writeFile puts a file in its place once it is whole.
func writeFile(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), dirMode); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	temporary := path + ".part"
	if err := os.WriteFile(temporary, data, fileMode); err != nil {
		return fmt.Errorf("write file: %w", err)
	}
	if err := os.Rename(temporary, path); err != nil {
		return fmt.Errorf("put file in its place: %w", err)
	}
	return nil
}

func exists(path string) (bool, error) {
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for file: %w", err)
	}
	return true, nil
}
