//go:build !linux

package system

import "syscall"

// ChildAttributes puts a child into its own process group. It gets no signal when this process dies.
func ChildAttributes(syscall.Signal) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
