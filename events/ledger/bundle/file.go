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

// partial ends the name of a file that is not whole yet.
const partial = ".part"

// writeFile puts a file in its place once it is whole, and on the disk.
func writeFile(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), dirMode); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	if err := os.WriteFile(path+partial, data, fileMode); err != nil {
		return fmt.Errorf("write file: %w", err)
	}
	if err := syncFile(path + partial); err != nil {
		return err
	}
	return rename(path)
}

// rename takes the ending off a file's name.
func rename(path string) error {
	if err := os.Rename(path+partial, path); err != nil {
		return fmt.Errorf("put file in its place: %w", err)
	}
	return nil
}

// syncFile waits until a file, or the names in a directory, are on the disk.
func syncFile(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open to synchronize: %w", err)
	}
	if err := errors.Join(file.Sync(), file.Close()); err != nil {
		return fmt.Errorf("synchronize %s: %w", path, err)
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
