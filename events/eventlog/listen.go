package eventlog

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
)

// reconnectInterval is how long Listen waits before it connects again.
const reconnectInterval = time.Second

// Listen wakes the subscriptions of this process when another process says that the log has grown. It holds one
// connection of its own, replaces it when it breaks, and returns when ctx ends. A nil logger stands for slog.Default.
func Listen(ctx context.Context, config *pgx.ConnConfig, wake *Wake, logger *slog.Logger) {
	if logger == nil {
		logger = slog.Default()
	}
	for {
		err := listen(ctx, config, wake)
		if ctx.Err() != nil {
			return
		}
		logger.WarnContext(ctx, "Lost the connection that listens for new events; polling once a second meanwhile", slog.Any("error", err))
		if !sleep(ctx, reconnectInterval) {
			return
		}
	}
}

func listen(ctx context.Context, config *pgx.ConnConfig, wake *Wake) error {
	conn, err := pgx.ConnectConfig(ctx, config.Copy())
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	// ctx may have ended by now; the server is told goodbye all the same.
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck,contextcheck // there is nothing left to do about it
	if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{AppendedChannel}.Sanitize()); err != nil {
		return fmt.Errorf("listen on %s: %w", AppendedChannel, err)
	}
	// What was appended before LISTEN took effect was announced to nobody.
	wake.signalRemote()
	for {
		notification, err := conn.WaitForNotification(ctx)
		if err != nil {
			return fmt.Errorf("wait for notification: %w", err)
		}
		// Subscriptions of this process knew of its own appends earlier.
		if notification.Payload != wake.id {
			wake.signalRemote()
		}
	}
}
