//go:build !linux

package database

import (
	"net"
	"time"
)

// limitUnacknowledged does nothing: what is not acknowledged is sent again for as long as this kernel has it.
func limitUnacknowledged(*net.TCPConn, time.Duration) {}
