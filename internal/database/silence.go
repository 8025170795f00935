package database

import (
	"context"
	"net"
	"runtime"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// silenceLimit is how long the peer of a TCP connection may be silent before the connection counts as broken. Linux
// also applies it to a peer that is alive but does not read its data. So it is much longer than one statement of a
// large batch takes or waits for a lock, because the server reads no further statements meanwhile.
const silenceLimit = 20 * time.Second

// keepAlive probes the peer of an idle connection, with the same limit in total.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 2}

// unacknowledgedTimeout is the same limit for data that the server has sent (tcp_user_timeout). It is for sessions that
// write in several round trips: when a response is lost, the transaction stays open until the server gives up. Sessions
// that may read slowly must not have it.
const unacknowledgedTimeout = "20s"

// noticeSilence breaks TCP connections whose peer has been silent for 20 seconds, for instance after a failover that
// removed its address, or when a firewall dropped the connection. Otherwise a sender would notice after a quarter of an
// hour, and most background work has no time-out. A busy peer is not silent, because its kernel responds.
func noticeSilence(config *pgx.ConnConfig) {
	dial := config.DialFunc
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		// After connecting; until then connect_timeout applies.
		if tcp, ok := conn.(*net.TCPConn); ok && err == nil {
			// A kernel without one of these options has its own limits.
			_ = tcp.SetKeepAliveConfig(keepAlive)
			if raw, rawErr := tcp.SyscallConn(); rawErr == nil && runtime.GOOS == "linux" {
				const userTimeout = 0x12 // TCP_USER_TIMEOUT, tcp(7)
				_ = raw.Control(func(fd uintptr) {
					_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, userTimeout, int(silenceLimit.Milliseconds()))
				})
			}
		}
		return conn, err
	}
}
