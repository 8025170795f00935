package main

import (
	"fmt"
	"time"

	"github.com/prometheus/procfs"
)

// processTime returns the processor time of a process since its start, user and system, without its children.
func processTime(pid int) (time.Duration, error) {
	if used, ok := cpuClock(pid); ok {
		return used, nil
	}
	process, err := procfs.NewProc(pid)
	if err != nil {
		return 0, fmt.Errorf("read processor time: %w", err)
	}
	stat, err := process.Stat()
	if err != nil {
		return 0, fmt.Errorf("read processor time: %w", err)
	}
	return seconds(stat.CPUTime()), nil
}

// familyTime returns the processor time of a process and of its children, including those that have ended.
func familyTime(pid int) (time.Duration, error) {
	processes, err := procfs.AllProcs()
	if err != nil {
		return 0, fmt.Errorf("list processes: %w", err)
	}
	var total time.Duration
	for _, process := range processes {
		stat, err := process.Stat()
		if err != nil || stat.PID != pid && stat.PPID != pid {
			continue // it has ended, or is another process
		}
		if used, ok := cpuClock(stat.PID); ok {
			total += used
		} else {
			total += seconds(stat.CPUTime())
		}
		if stat.PID == pid {
			total += seconds(float64(stat.CUTime+stat.CSTime) / ticks)
		}
	}
	return total, nil
}

// ticks is USER_HZ, which is 100 on every Linux platform of Go.
const ticks = 100

// machineTime returns the total busy time of all processors.
func machineTime() (time.Duration, error) {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return 0, fmt.Errorf("read processor time: %w", err)
	}
	stat, err := fs.Stat()
	if err != nil {
		return 0, fmt.Errorf("read processor time: %w", err)
	}
	t := stat.CPUTotal // user includes the time of guests
	return seconds(t.User + t.Nice + t.System + t.IRQ + t.SoftIRQ + t.Steal), nil
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
