package testdb

import (
	"os"
	"syscall"
	"testing"
)

// ReservePort returns a port of 127.0.0.1 at which nothing listens, so that connections are refused. Until the test
// ends, the system does not choose the port when a process asks for any free one. A server of the test may listen at
// it, also after it was stopped.
func ReservePort(t testing.TB) int {
	t.Helper()
	syscall.ForkLock.RLock()
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(socket)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatalf("testdb: reserve a port: %v", os.NewSyscallError("socket", err))
	}
	t.Cleanup(func() { _ = syscall.Close(socket) })
	// With this option, which listeners of Go have, too, Linux lets a socket listen beside one that is only bound.
	err = syscall.SetsockoptInt(socket, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1)
	if err == nil {
		err = syscall.Bind(socket, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
	}
	var bound syscall.Sockaddr
	if err == nil {
		bound, err = syscall.Getsockname(socket)
	}
	address, ok := bound.(*syscall.SockaddrInet4)
	if err != nil || !ok {
		t.Fatalf("testdb: reserve a port: %v, %v", bound, err)
	}
	return address.Port
}
