//go:build !linux

package cpu

import "time"

func clock(int) (time.Duration, bool) { return 0, false }
