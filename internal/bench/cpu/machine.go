package cpu

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Machine returns for how long the processors have been busy, all together, whoever kept them so.
func Machine() (time.Duration, error) {
	content, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, fmt.Errorf("read processor time: %w", err)
	}
	return ParseMachine(string(content))
}

// ParseMachine reads the first line of /proc/stat (proc_stat(5)).
func ParseMachine(content string) (time.Duration, error) {
	line, _, _ := strings.Cut(content, "\n")
	fields := strings.Fields(line)
	// cpu user nice system idle iowait irq softirq steal; guests are part of user.
	const idle, iowait, last = 4, 5, 8
	if len(fields) <= last || fields[0] != "cpu" {
		return 0, fmt.Errorf("%w: %q", errStat, line)
	}
	var busy time.Duration
	for i, text := range fields[:last+1] {
		if i == 0 || i == idle || i == iowait {
			continue
		}
		ticks, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%w: %q", errStat, line)
		}
		busy += time.Duration(ticks) * tick
	}
	return busy, nil
}
