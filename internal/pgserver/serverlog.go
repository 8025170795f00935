package pgserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"time"
)

const (
	maxLogSize  = 16 << 20 // bytes; a larger log is rotated
	logInterval = time.Minute
	tailSize    = 16 << 10 // bytes that are read for an error message
)

// Novelgate rotates the log itself, because PostgreSQL's logging_collector cannot limit the total size: after a
// rotation by size the new file has a new name, and only a rotation by age replaces an older file.

// openLog opens the log for appending. It returns the size of the log, so that the error of a failed start can quote
// the new lines.
func openLog(path string, owner account) (file *os.File, size int64, err error) {
	if err := rotateLog(path, owner); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, 0, err
	}
	file, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, 0, fmt.Errorf("open server log: %w", err)
	}
	info, err := file.Stat()
	if err == nil {
		err = owner.chown(path)
	}
	if err != nil {
		return nil, 0, errors.Join(fmt.Errorf("prepare server log: %w", err), file.Close())
	}
	return file, info.Size(), nil
}

// watchLog rotates the log while the server runs.
func (s *Server) watchLog(ctx context.Context, owner account) {
	tick := time.NewTicker(s.cfg.logInterval)
	defer tick.Stop()
	for {
		select {
		case <-s.process.Done():
			return
		case <-tick.C:
		}
		if err := rotateLog(s.layout.log(), owner); err != nil {
			s.cfg.Logger.WarnContext(ctx, "cannot rotate the log of the embedded PostgreSQL", slog.Any("error", err))
		}
	}
}

// rotateLog copies the last maxLogSize bytes of a larger log to path.1, and truncates the log. Renaming the file would
// not do: the server keeps it open, and would append to the renamed file. Lines between the end of the copy and the
// truncation are lost.
func rotateLog(path string, owner account) error {
	log, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("open server log: %w", err)
	}
	defer func() { _ = log.Close() }() // nothing is written
	info, err := log.Stat()
	if err != nil {
		return fmt.Errorf("read the size of the server log: %w", err)
	}
	if info.Size() <= maxLogSize {
		return nil
	}
	if _, err := log.Seek(-maxLogSize, io.SeekEnd); err != nil {
		return fmt.Errorf("read server log: %w", err)
	}
	if err := saveLog(path+".1", log, owner); err != nil {
		return fmt.Errorf("copy server log: %w", err)
	}
	if err := log.Truncate(0); err != nil {
		return fmt.Errorf("truncate server log: %w", err)
	}
	return nil
}

// saveLog replaces the file at path with what is left to read of log.
func saveLog(path string, log io.Reader, owner account) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, log)
	return errors.Join(err, file.Close(), owner.chown(path))
}

// tailLog returns the last lines of the log from an offset on, or the error of reading it.
func tailLog(path string, offset int64) string {
	file, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return err.Error()
	}
	content, err := io.ReadAll(io.NewSectionReader(file, max(offset, info.Size()-tailSize), tailSize))
	if err != nil {
		return err.Error()
	}
	return lastLines(string(content), 12)
}

func lastLines(text string, count int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-count):], "\n")
}
