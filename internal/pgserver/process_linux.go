package pgserver

import "syscall"

// childAttributes puts the child into its own process group, so that a Ctrl-C meant for us does not
// shut the server down before we are done with it, and ties its life to ours.
func childAttributes(who account) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Setpgid:    true,
		Pdeathsig:  syscall.SIGINT,
		Credential: who.credential(),
	}
}
