//go:build !linux

package database

import (
	"net"
	"time"
)

// limitUnacknowledged does nothing: this kernel's own retransmission limit applies.
func limitUnacknowledged(*net.TCPConn, time.Duration) {}
