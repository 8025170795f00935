package pgserver

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

const (
	maxLogSize = 16 << 20 // bytes, beyond which a start moves the log aside
	tailSize   = 16 << 10 // bytes read back for an error message
)

// openLog opens the log for appending and returns its size, from which a failed start is quoted.
func openLog(path string, owner account) (file *os.File, size int64, err error) {
	if info, err := os.Stat(path); err == nil && info.Size() > maxLogSize {
		if err := os.Rename(path, path+".1"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, 0, fmt.Errorf("move server log aside: %w", err)
		}
	}
	file, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, 0, fmt.Errorf("open server log: %w", err)
	}
	info, err := file.Stat()
	if err == nil {
		err = owner.own(path)
	}
	if err != nil {
		return nil, 0, errors.Join(fmt.Errorf("prepare server log: %w", err), file.Close())
	}
	return file, info.Size(), nil
}

// tailLog returns the last lines that the log has gained since it had size bytes.
func tailLog(path string, size int64) string {
	file, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return err.Error()
	}
	content, err := io.ReadAll(io.NewSectionReader(file, max(size, info.Size()-tailSize), tailSize))
	if err != nil {
		return err.Error()
	}
	return lastLines(string(content), 12)
}

func lastLines(text string, count int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-count):], "\n")
}
