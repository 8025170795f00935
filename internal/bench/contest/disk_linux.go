package contest

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

var errMemory = errors.New("a memory file system: choose a directory on a disk with --data-dir")

// OnDisk refuses a directory in memory.
func OnDisk(dir string) error {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return fmt.Errorf("look at %s: %w", dir, err)
	}
	if fs.Type == unix.TMPFS_MAGIC || fs.Type == unix.RAMFS_MAGIC {
		return fmt.Errorf("%s is on %w", dir, errMemory)
	}
	return nil
}
