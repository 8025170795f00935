package database

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
)

// relistenPause is the wait before a lost listening connection is opened again.
const relistenPause = 250 * time.Millisecond

// Listen calls the handler of a channel for each of its notifications until ctx ends. After every connection it calls
// all handlers once with an empty payload, because notifications may have been missed. Handlers must not block.
func Listen(
	ctx context.Context, config *pgx.ConnConfig, logger *slog.Logger, handlers map[string]func(payload string),
) {
	for ctx.Err() == nil {
		if err := listen(ctx, config, handlers); err != nil && ctx.Err() == nil {
			logger.WarnContext(ctx, "listening connection lost", slog.Any("error", err))
		}
		select {
		case <-time.After(relistenPause):
		case <-ctx.Done():
		}
	}
}

func listen(ctx context.Context, config *pgx.ConnConfig, handlers map[string]func(string)) error {
	config = config.Copy()
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectTimeout
	}
	config.RuntimeParams["application_name"] = "novelgate-listen"
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("connect to listen: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // the connection is discarded
	for channel := range handlers {
		if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{channel}.Sanitize()); err != nil {
			return fmt.Errorf("listen to %s: %w", channel, err)
		}
	}
	for _, handle := range handlers {
		handle("")
	}
	for {
		notification, err := conn.WaitForNotification(ctx)
		if err != nil {
			return fmt.Errorf("wait for notification: %w", err)
		}
		if handle, ok := handlers[notification.Channel]; ok {
			handle(notification.Payload)
		}
	}
}
