package cpu

import (
	"time"

	"golang.org/x/sys/unix"
)

// clock reads the CPU-time clock of a process (clock_getcpuclockid(3)), in nanoseconds where /proc has only ticks.
func clock(pid int) (time.Duration, bool) {
	const scheduler = 2 // CPUCLOCK_SCHED: the exact sum, user and system
	var spent unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|scheduler), &spent); err != nil { //nolint:gosec // process ids have 22 bits at most
		return 0, false
	}
	return time.Duration(spent.Nano()), true
}
