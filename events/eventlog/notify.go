package eventlog

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"novelgate/internal/database"
)

// AppendedChannel is the NOTIFY channel on which processes tell each other that the log has grown. The payload
// names the sending process, or is empty.
const AppendedChannel = "novelgate_appended"

// notifyInterval is the least time between two notifications of one process. A NOTIFY in every append would take a
// lock that all appends share and halve their rate.
const notifyInterval = 50 * time.Millisecond

const notifySQL = `SELECT pg_notify($1, $2)`

// QueueNotification adds to a batch that appends what tells all processes so. It is for programs that append now and
// then; a service runs a Notifier.
func QueueNotification(batch *pgx.Batch) { batch.Queue(notifySQL, AppendedChannel, "") }

func notify(ctx context.Context, db database.Execer, sender string) error {
	if _, err := db.Exec(ctx, notifySQL, AppendedChannel, sender); err != nil {
		return fmt.Errorf("notify %s: %w", AppendedChannel, err)
	}
	return nil
}

// Notifier passes the signals of this process on to other processes: the first at once, later ones at most once in
// 50 ms. A notification that is lost only costs time, since subscriptions also poll once a second.
type Notifier struct {
	db     database.Execer
	wake   *Wake
	logger *slog.Logger
}

// NewNotifier returns a notifier of the appends that wake is told of. A nil logger stands for slog.Default.
func NewNotifier(db database.Execer, wake *Wake, logger *slog.Logger) *Notifier {
	if logger == nil {
		logger = slog.Default()
	}
	return &Notifier{db: db, wake: wake, logger: logger}
}

// Run sends notifications until ctx ends. It uses one connection, for the moment of each notification.
func (n *Notifier) Run(ctx context.Context) {
	signals, stop := n.wake.register(true)
	defer stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-signals:
		}
		if err := notify(ctx, n.db, n.wake.id); err != nil && ctx.Err() == nil {
			n.logger.WarnContext(ctx, "Other replicas were not told of new events; they find them within a second",
				slog.Any("error", err))
		}
		if !Sleep(ctx, notifyInterval) {
			return
		}
	}
}
