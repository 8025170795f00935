package main

import (
	"fmt"
	"time"

	"github.com/prometheus/procfs"
)

// processTime returns what a process has used since it began, user and system, without its children.
func processTime(pid int) (time.Duration, error) {
	if used, ok := clock(pid); ok {
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

// familyTime returns what a process and its children have used, those that have ended included.
func familyTime(pid int) (time.Duration, error) {
	processes, err := procfs.AllProcs()
	if err != nil {
		return 0, fmt.Errorf("list processes: %w", err)
	}
	var total time.Duration
	for _, process := range processes {
		stat, err := process.Stat()
		if err != nil || stat.PID != pid && stat.PPID != pid {
			continue // it has ended, or is another one
		}
		if used, ok := clock(stat.PID); ok {
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

// ticks is USER_HZ, which is 100 on every platform that Go knows Linux on.
const ticks = 100

// machineTime returns for how long the processors have been busy, all together.
func machineTime() (time.Duration, error) {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return 0, fmt.Errorf("read processor time: %w", err)
	}
	stat, err := fs.Stat()
	if err != nil {
		return 0, fmt.Errorf("read processor time: %w", err)
	}
	t := stat.CPUTotal // guests are part of user
	return seconds(t.User + t.Nice + t.System + t.IRQ + t.SoftIRQ + t.Steal), nil
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
