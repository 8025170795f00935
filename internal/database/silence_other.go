//go:build !linux

package database

import (
	"net"
	"time"
)

// limitUnacknowledged does nothing: TCP_USER_TIMEOUT exists on Linux only. Elsewhere the limit of the kernel applies.
func limitUnacknowledged(*net.TCPConn, time.Duration) {}
