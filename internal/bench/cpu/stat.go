// Package cpu reads how much processor time processes have used, user and system together.
package cpu

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Stat is what the benchmark needs of /proc/PID/stat (proc_pid_stat(5)).
type Stat struct {
	PID, Parent int
	Used        time.Duration // utime + stime of the process itself, cut to whole ticks
	Reaped      time.Duration // cutime + cstime: of children that have ended and were waited for
}

// tick is 1/USER_HZ, which is a hundredth of a second on every platform that Go knows Linux on.
const tick = 10 * time.Millisecond

var errStat = errors.New("not a /proc/PID/stat line")

// ParseStat reads the line. The name of the program, in parentheses, may itself hold parentheses and spaces.
func ParseStat(line string) (Stat, error) {
	open, end := strings.IndexByte(line, '('), strings.LastIndexByte(line, ')')
	if open < 0 || end < open {
		return Stat{}, fmt.Errorf("%w: %q", errStat, line)
	}
	const ( // counted from the state, the third field of the line
		parent   = 1
		userTime = 11
		fields   = 15 // as many as are read
	)
	rest := strings.Fields(line[end+1:])
	if len(rest) < fields {
		return Stat{}, fmt.Errorf("%w: %q", errStat, line)
	}
	var numbers [6]int
	for i, text := range append([]string{strings.TrimSpace(line[:open]), rest[parent]}, rest[userTime:userTime+4]...) {
		number, err := strconv.Atoi(text)
		if err != nil {
			return Stat{}, fmt.Errorf("%w: %q", errStat, line)
		}
		numbers[i] = number
	}
	return Stat{
		PID: numbers[0], Parent: numbers[1],
		Used: time.Duration(numbers[2]+numbers[3]) * tick, Reaped: time.Duration(numbers[4]+numbers[5]) * tick,
	}, nil
}
