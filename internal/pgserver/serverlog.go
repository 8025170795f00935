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
	maxLogSize  = 16 << 20 // bytes, beyond which the log is moved aside
	logInterval = time.Minute
	tailSize    = 16 << 10 // bytes read back for an error message
)

// The server's own logging_collector does not bound the log: a new file that it begins because of the size of the old
// one takes another name, and only one that it begins after some time replaces an older file.

// openLog opens the log for appending and returns its size, from which a failed start is quoted.
func openLog(path string, owner account) (file *os.File, size int64, err error) {
	if err := emptyLog(path, owner); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, 0, err
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

// watchLog keeps the log from growing for as long as the server runs.
func (s *Server) watchLog(ctx context.Context, who account) {
	tick := time.NewTicker(s.cfg.logInterval)
	defer tick.Stop()
	for {
		select {
		case <-s.process.done:
			return
		case <-tick.C:
		}
		if err := emptyLog(s.layout.log(), who); err != nil {
			s.cfg.Logger.WarnContext(ctx, "the log of the embedded PostgreSQL grows on", slog.Any("error", err))
		}
	}
}

// emptyLog copies a log that has grown, or its end if it has grown far, to the place of the one before, and empties it.
// The server writes on to the same file, which it has open: renaming it would change nothing. It appends, so it begins
// at the beginning again. What it writes between the last look at the file and the moment when that is emptied, is
// lost.
func emptyLog(path string, owner account) error {
	log, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("open server log: %w", err)
	}
	defer func() { _ = log.Close() }() // nothing of it is written through this
	info, err := log.Stat()
	if err != nil {
		return fmt.Errorf("look at server log: %w", err)
	}
	if info.Size() <= maxLogSize {
		return nil
	}
	if _, err := log.Seek(-maxLogSize, io.SeekEnd); err != nil {
		return fmt.Errorf("read server log: %w", err)
	}
	if err := keep(log, path+".1", owner); err != nil {
		return fmt.Errorf("keep server log: %w", err)
	}
	if err := log.Truncate(0); err != nil {
		return fmt.Errorf("empty server log: %w", err)
	}
	return nil
}

// keep writes what is left to read of a log to a file of its own, in the place of what was there.
func keep(log io.Reader, path string, owner account) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, log)
	return errors.Join(err, file.Close(), owner.own(path))
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
