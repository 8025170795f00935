package pgserver

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// diesWithParent reports that a server gets a signal when its owner dies.
const diesWithParent = true

// memory returns the bytes of memory of this machine or container; 0 if unknown.
func memory() uint64 {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0
	}
	total := uint64(info.Totalram) * uint64(info.Unit)                     //nolint:unconvert // the types depend on the architecture
	if text, err := os.ReadFile("/sys/fs/cgroup/memory.max"); err == nil { // cgroups(7), version 2
		if limit, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64); err == nil {
			total = min(total, limit)
		}
	}
	return total
}

// disk returns the size and the free bytes of the file system of a directory; size 0 if unknown.
func disk(dir string) (size, free uint64) {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return 0, 0
	}
	block := uint64(fs.Bsize) //nolint:gosec // never negative
	return fs.Blocks * block, fs.Bavail * block
}
