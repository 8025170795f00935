//go:build !linux

package cluster

// adoptOrphans is only needed, and implemented, on Linux.
func adoptOrphans() (stop func(), err error) { return func() {}, nil }
