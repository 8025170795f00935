// Package planted breaks the rules for commands.
package planted

import (
	"context"
	_ "encoding/json" // want depguard
	_ "log"           // want depguard
	"log/slog"
	_ "math/rand" // want depguard
	"time"

	_ "novelgate/cmd/planted"     // want depguard
	_ "novelgate/docs"            // want depguard
	_ "novelgate/internal/testdb" // want depguard
	_ "novelgate/migrations"      // want depguard
	_ "novelgate/readapi"         // want depguard
)

// Log reads the clock and logs badly.
func Log(ctx context.Context, logger *slog.Logger) {
	now := time.Now()                              // want forbidigo
	logger.InfoContext(ctx, "planted", "now", now) // want sloglint
	logger.Info("planted", slog.Time("now", now))  // want sloglint
}
