package relay

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
)

// Connection configures a connection to NATS.
type Connection struct {
	// URL has the addresses of the servers, separated by commas; tls:// demands TLS. Required.
	URL string
	// Credentials is a file with the JWT and the key of a user. Default: none.
	Credentials string
	// CA is a file with the CA certificates that verify the servers. Default: those of the system.
	CA string
	// Certificate and Key are files with the client certificate and its private key. Default: none.
	Certificate, Key string
	// Logger gets lost connections and other errors of NATS. Default: slog.Default.
	Logger *slog.Logger
}

// Connect opens a connection, which keeps trying while no server answers. ctx is only for logging.
func Connect(ctx context.Context, c Connection) (*nats.Conn, error) {
	logger := cmp.Or(c.Logger, slog.Default())
	const reconnectWait = 500 * time.Millisecond
	options := []nats.Option{
		nats.Name("novelgate relay"), nats.MaxReconnects(-1), nats.ReconnectWait(reconnectWait),
		nats.RetryOnFailedConnect(true),
		// No buffer: the relay reads unsent events from the log again. A failover could lose a buffered event from the log
		// before it is sent.
		nats.ReconnectBufSize(-1),
		nats.DisconnectErrHandler(func(conn *nats.Conn, err error) {
			if !conn.IsClosed() {
				logger.WarnContext(ctx, "The connection to NATS is lost; trying again", slog.Any("error", err))
			}
		}),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			logger.WarnContext(ctx, "NATS reports an error", slog.Any("error", err))
		}),
	}
	if c.Credentials != "" {
		options = append(options, nats.UserCredentials(c.Credentials))
	}
	if c.CA != "" {
		options = append(options, nats.RootCAs(c.CA))
	}
	if c.Certificate != "" {
		options = append(options, nats.ClientCert(c.Certificate, c.Key))
	}
	conn, err := nats.Connect(c.URL, options...)
	if err != nil {
		return nil, fmt.Errorf("connect to NATS: %w", err)
	}
	return conn, nil
}
