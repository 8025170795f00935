package database

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// limitUnacknowledged breaks conn when sent data is not acknowledged or not read by the peer for limit (tcp(7),
// TCP_USER_TIMEOUT).
func limitUnacknowledged(conn *net.TCPConn, limit time.Duration) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(limit.Milliseconds()))
	})
}
