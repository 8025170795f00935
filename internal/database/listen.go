package database

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
)

// relistenPause is the wait before a lost listening connection is opened again.
const relistenPause = 250 * time.Millisecond

// Listen calls handle for each notification of a channel until ctx ends. After every connection it calls it once with
// an empty payload, because notifications may have been missed. handle must not block.
func Listen(
	ctx context.Context, config *pgx.ConnConfig, logger *slog.Logger, channel string, handle func(payload string),
) {
	for ctx.Err() == nil {
		if err := listen(ctx, config, channel, handle); err != nil && ctx.Err() == nil {
			logger.WarnContext(ctx, "listening connection lost", slog.Any("error", err))
		}
		select {
		case <-time.After(relistenPause):
		case <-ctx.Done():
		}
	}
}

func listen(ctx context.Context, config *pgx.ConnConfig, channel string, handle func(string)) error {
	config = config.Copy()
	config.ConnectTimeout = cmp.Or(config.ConnectTimeout, connectTimeout)
	config.RuntimeParams[applicationName] = "novelgate-listen"
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("connect to listen: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // the connection is discarded
	if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{channel}.Sanitize()); err != nil {
		return fmt.Errorf("listen to %s: %w", channel, err)
	}
	for handle(""); ; {
		notification, err := conn.WaitForNotification(ctx)
		if err != nil {
			return fmt.Errorf("wait for notification: %w", err)
		}
		handle(notification.Payload)
	}
}
