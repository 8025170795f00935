package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/google/uuid"

	"novelgate/events/handover"
	"novelgate/internal/osfile"
)

// standardStream as the name of a file is standard output or standard input.
const standardStream = "-"

// tokenReserve is the space for a token, in bytes. Only a token with thousands of pending webhook deliveries is larger.
const tokenReserve = 1 << 20

// Errors of the file of a handover.
var (
	errFileUsed  = errors.New("another command uses the file of this handover")
	errFileTaken = errors.New("the file of another handover")
)

// claimFile creates and locks the file of a handover. It reserves space for the token, so that writing the token later
// does not fail. It replaces a file only if that is blank or has a token of the same promotion, as after an interrupted
// run.
func claimFile(name string, promotion uuid.UUID) (*os.File, error) {
	f, err := createFile(name)
	if errors.Is(err, fs.ErrExist) {
		if err = removeClaim(name, promotion); err == nil {
			f, err = createFile(name)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("create the file of the handover: %w", err)
	}
	return f, nil
}

func createFile(name string) (*os.File, error) {
	f, err := lockFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return nil, err
	}
	if _, err = f.Write(bytes.Repeat([]byte{' '}, tokenReserve)); err == nil {
		err = errors.Join(f.Sync(), osfile.Sync(filepath.Dir(f.Name())))
	}
	if err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(name))
	}
	return f, nil
}

// removeClaim removes a file that has no token yet, or a token of the same promotion.
func removeClaim(name string, promotion uuid.UUID) error {
	f, err := lockFile(name, os.O_RDWR)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // it was only read from
	text, err := io.ReadAll(f)
	if err != nil {
		return err
	}
	if len(bytes.TrimSpace(text)) > 0 {
		token, err := handover.ReadToken(bytes.NewReader(text))
		if err == nil && token.Promotion != promotion {
			err = errFileTaken
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return os.Remove(name)
}

// writeFile writes the token into its file and closes it. When it returns, the token is on disk.
func writeFile(f *os.File, token *handover.Token) error {
	var text bytes.Buffer
	err := token.Write(&text)
	if err == nil {
		_, err = f.WriteAt(text.Bytes(), 0)
	}
	if err == nil {
		err = f.Truncate(int64(text.Len()))
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// lockFile opens a file and locks it against other commands on this machine until it is closed.
func lockFile(name string, flags int) (*os.File, error) {
	f, err := osfile.Lock(name, flags, syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, osfile.ErrLocked) {
		err = fmt.Errorf("%s: %w", name, errFileUsed)
	}
	if err != nil {
		return nil, err
	}
	var named fs.FileInfo
	opened, err := f.Stat()
	if err == nil {
		named, err = os.Stat(name)
	}
	if err == nil && !os.SameFile(opened, named) {
		err = errFileUsed // the other command has replaced the file meanwhile
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", name, err), f.Close())
	}
	return f, nil
}

// readToken reads a token from a file, which stays locked until release is called, or from standard input.
func readToken(name string) (token *handover.Token, release func(), err error) {
	if name == standardStream {
		token, err = handover.ReadToken(os.Stdin)
		return token, func() {}, err
	}
	f, err := lockFile(name, os.O_RDWR)
	if err != nil {
		return nil, nil, fmt.Errorf("read the handover: %w", err)
	}
	release = func() { _ = f.Close() } // it was only read from
	if token, err = handover.ReadToken(f); err != nil {
		release()
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	return token, release, nil
}
