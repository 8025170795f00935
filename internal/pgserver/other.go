//go:build !linux

package pgserver

import (
	"errors"
	"syscall"
)

// grantPassage is only implemented on Linux.
func grantPassage(string, int) error { return errors.ErrUnsupported }

// memory returns 0: unknown.
func memory() uint64 { return 0 }

// disk returns 0: unknown.
func disk(string) (size, free uint64) { return 0, 0 }

// childAttributes puts the child into its own process group, so that a Ctrl-C for this process does not stop the server
// too early. If this process dies, the next owner stops the server (see awaitPredecessor).
func childAttributes(who account) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Credential: who.credential()}
}
