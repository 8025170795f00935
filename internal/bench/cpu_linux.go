package main

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// cpuClock reads the CPU-time clock of a process (clock_getcpuclockid(3)), which has nanoseconds. /proc has only ticks.
func cpuClock(pid int) (time.Duration, bool) {
	const scheduler = 2 // CPUCLOCK_SCHED: the exact sum, user and system
	var spent unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|scheduler), &spent); err != nil { //nolint:gosec // process ids have 22 bits at most
		return 0, false
	}
	return time.Duration(spent.Nano()), true
}

var errMemory = errors.New("a file system in memory: choose a directory on a disk with --data-dir")

// onDisk refuses a directory in memory, such as tmpfs.
func onDisk(dir string) error {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return fmt.Errorf("find the file system of %s: %w", dir, err)
	}
	if fs.Type == unix.TMPFS_MAGIC || fs.Type == unix.RAMFS_MAGIC {
		return fmt.Errorf("%s is on %w", dir, errMemory)
	}
	return nil
}
