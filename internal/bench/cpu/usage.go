package cpu

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// Process returns what a process has used since it began, without its children.
func Process(pid int) (time.Duration, error) {
	if used, ok := clock(pid); ok {
		return used, nil
	}
	stat, err := read(pid)
	return stat.Used, err
}

// Family returns what a process and its children have used, those that have ended included.
func Family(pid int) (time.Duration, error) {
	paths, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, fmt.Errorf("list processes: %w", err)
	}
	parent, err := read(pid)
	if err != nil {
		return 0, err
	}
	total, err := Process(pid)
	if err != nil {
		return 0, err
	}
	total += parent.Reaped
	for _, path := range paths {
		line, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		stat, err := ParseStat(string(line))
		if err != nil {
			return 0, err
		}
		if stat.Parent != pid {
			continue
		}
		if used, ok := clock(stat.PID); ok {
			stat.Used = used
		}
		total += stat.Used
	}
	return total, nil
}

func read(pid int) (Stat, error) {
	line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return Stat{}, fmt.Errorf("read processor time: %w", err)
	}
	return ParseStat(string(line))
}
