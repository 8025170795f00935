//go:build !linux

package pgserver

import (
	"errors"
	"syscall"
)

// grantPassage is for Linux, where root starts servers.
func grantPassage(string, int) error { return errors.ErrUnsupported }

// memory returns 0: it cannot be told here.
func memory() uint64 { return 0 }

// disk returns 0: it cannot be told here.
func disk(string) (size, free uint64) { return 0, 0 }

// childAttributes puts the child into its own process group, so that a Ctrl-C meant for us does not
// shut the server down before we are done with it. Where the kernel cannot tie its life to ours, the
// next owner stops an orphan (see awaitPredecessor).
func childAttributes(who account) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Credential: who.credential()}
}
