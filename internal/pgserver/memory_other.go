//go:build !linux

package pgserver

// memory returns 0: it cannot be told here.
func memory() uint64 { return 0 }
