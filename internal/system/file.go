// Package system is what programs need of the operating system beyond the standard library: locks between processes,
// files that are on disk, and children that end with this process.
package system

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// ErrLocked means that another process holds the lock.
var ErrLocked = errors.New("another process holds the lock")

// Lock opens a file and locks it (flock) until the file is closed or the process ends. The lock holds against all other
// processes, on this machine or on others that mount the file. flags are those of os.OpenFile: NFS grants an exclusive
// lock only on a file that is open for writing. A file that Lock creates has mode 0600. how is LOCK_EX or LOCK_SH; with
// LOCK_NB, Lock fails with ErrLocked instead of waiting.
func Lock(path string, flags, how int) (*os.File, error) {
	const mode = 0o600
	file, err := os.OpenFile(path, flags, mode)
	if err != nil {
		return nil, fmt.Errorf("open to lock: %w", err)
	}
	err = syscall.Flock(int(file.Fd()), how)
	for errors.Is(err, syscall.EINTR) {
		err = syscall.Flock(int(file.Fd()), how)
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = ErrLocked
	}
	if err != nil {
		_ = file.Close() // nothing was written
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return file, nil
}

// Sync syncs a file, or the names in a directory, to disk.
func Sync(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open to sync: %w", err)
	}
	if err := errors.Join(file.Sync(), file.Close()); err != nil {
		return fmt.Errorf("sync %s: %w", path, err)
	}
	return nil
}
