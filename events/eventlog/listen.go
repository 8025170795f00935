package eventlog

import (
	"context"
	"log/slog"

	"github.com/jackc/pgx/v5"

	"novelgate/internal/database"
)

// Listen wakes the subscriptions of this process when another process says that the log has grown. It holds one
// connection of its own, replaces it when it breaks, and returns when ctx ends. A nil logger stands for slog.Default.
func Listen(ctx context.Context, config *pgx.ConnConfig, wake *Wake, logger *slog.Logger) {
	if logger == nil {
		logger = slog.Default()
	}
	database.Listen(ctx, config, logger, map[string]func(string){AppendedChannel: func(payload string) {
		// Subscriptions of this process knew of its own appends earlier.
		if payload != wake.id {
			wake.signalRemote()
		}
	}})
}
