//go:build !linux

package pgserver

const diesWithParent = false

// memory returns 0: unknown.
func memory() uint64 { return 0 }

// disk returns 0: unknown.
func disk(string) (size, free uint64) { return 0, 0 }
