package system

import "syscall"

// ChildAttributes puts a child into its own process group, and sends it a signal when this process dies.
func ChildAttributes(death syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: death}
}
