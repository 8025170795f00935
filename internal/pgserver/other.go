//go:build !linux

package pgserver

import "errors"

// grantPassage is only implemented on Linux.
func grantPassage(string, int) error { return errors.ErrUnsupported }

// memory returns 0: unknown.
func memory() uint64 { return 0 }

// disk returns 0: unknown.
func disk(string) (size, free uint64) { return 0, 0 }
