//go:build !linux

package child

import "syscall"

// Attributes puts a child into its own process group. It gets no signal when this process dies.
func Attributes(syscall.Signal) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
