package pgserver

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// cgroupLimit says how much memory the container may use (cgroups(7), version 2); there is none outside of one.
const cgroupLimit = "/sys/fs/cgroup/memory.max"

// memory returns the bytes of memory of this machine or container, 0 if that cannot be told.
func memory() uint64 {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0
	}
	total := uint64(info.Totalram) * uint64(info.Unit) //nolint:unconvert // the types differ between architectures
	if text, err := os.ReadFile(cgroupLimit); err == nil {
		if limit, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64); err == nil {
			total = min(total, limit)
		}
	}
	return total
}
