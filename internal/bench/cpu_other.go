//go:build !linux

package main

import "time"

func cpuClock(int) (time.Duration, bool) { return 0, false }

func onDisk(string) error { return nil }
