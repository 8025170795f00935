package eventlog

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/internal/database"
)

// Wake tells the subscriptions of this process that the log may have grown. It carries no data: who is woken polls.
type Wake struct {
	id      string // tells this process's notifications from those of others
	mu      sync.Mutex
	readers map[chan struct{}]bool // value: is only interested in commits of this process
}

// NewWake returns a Wake without subscriptions.
func NewWake() *Wake {
	return &Wake{id: uuid.NewString(), readers: map[chan struct{}]bool{}}
}

// Signal says that this process has committed an append. It never blocks; signals that nobody has taken yet
// collapse into one.
func (w *Wake) Signal() { w.broadcast(true) }

// signalRemote says that another process has, or may have, committed an append.
func (w *Wake) signalRemote() { w.broadcast(false) }

func (w *Wake) broadcast(local bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for reader, localOnly := range w.readers {
		if localOnly && !local {
			continue
		}
		select {
		case reader <- struct{}{}:
		default:
		}
	}
}

// Signals returns a channel that receives the signals of this process and of others, at most one ahead, and a function
// that ends this. A nil Wake never signals.
func (w *Wake) Signals() (signals <-chan struct{}, stop func()) {
	if w == nil {
		return nil, func() {}
	}
	return w.register(false)
}

// register returns a channel that receives signals, and a function that ends this.
func (w *Wake) register(localOnly bool) (signals <-chan struct{}, stop func()) {
	reader := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.readers[reader] = localOnly
	return reader, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.readers, reader)
	}
}

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
