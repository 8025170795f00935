package database

import (
	"context"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
)

// silenceLimit is how long the other end of a TCP connection may say nothing at all before the connection counts as
// broken. Linux applies it as well to an end that is there but takes in nothing of what it is sent; so it is well above
// what one statement of a large batch takes, or may wait for a lock: the server does not read the others meanwhile.
const silenceLimit = 20 * time.Second

// keepAlive asks the other end of an idle connection whether it is there, and comes to the same limit.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 2}

// serverSilence makes the server ask in the same way. Otherwise the sessions of a replica that has vanished would last
// for hours, with their locks and transactions, behind which the log stays hidden. What the URL says about it holds.
var serverSilence = map[string]string{
	"tcp_keepalives_idle":     "10s",
	"tcp_keepalives_interval": "5s",
	"tcp_keepalives_count":    "2",
}

// unansweredByUs is the same limit for what the server has sent (tcp_user_timeout). It is for sessions that write in
// several round trips: when the answer to one is lost, the transaction is open until the server gives up. Whoever reads
// at the pace of others must not have it.
const unansweredByUs = "20s"

// noticeSilence lets connections over TCP break when the other end has been silent for 20 seconds, as it is after a
// fail-over that took the address away, or when a firewall has forgotten the connection. Whoever sends something would
// otherwise learn so after a quarter of an hour, and most of what works in the background has no time-out of its own.
// An end that is busy is not silent: its kernel answers.
func noticeSilence(config *pgx.ConnConfig) {
	dial := config.DialFunc
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		// Once it is connected: until then connect_timeout holds.
		if tcp, ok := conn.(*net.TCPConn); ok && err == nil {
			// A kernel without one of these options has limits of its own.
			_ = tcp.SetKeepAliveConfig(keepAlive)
			limitUnacknowledged(tcp, silenceLimit)
		}
		return conn, err
	}
}
