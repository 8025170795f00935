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

// Wake signals the followers of the log in this process that the log may have grown. A signal carries no data; the
// followers read. Create a Wake with NewWake.
type Wake struct {
	id    string        // distinguishes this process's notifications from those of others
	local chan struct{} // signals that Notify passes on

	mu        sync.Mutex
	followers map[chan struct{}]struct{}
}

// NewWake returns a Wake without followers.
func NewWake() *Wake {
	return &Wake{id: uuid.NewString(), local: make(chan struct{}, 1), followers: map[chan struct{}]struct{}{}}
}

// Signal reports that this process has committed an append. It never blocks; signals that a follower has not received
// yet are merged.
func (w *Wake) Signal() {
	signal(w.local)
	w.broadcast()
}

func (w *Wake) broadcast() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for follower := range w.followers {
		signal(follower)
	}
}

func signal(to chan<- struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}

// subscribe returns a channel that receives the signals of this process and of others, with a buffer of one, and a
// function that ends the subscription. A nil Wake never signals.
func (w *Wake) subscribe() (signals <-chan struct{}, stop func()) {
	if w == nil {
		return nil, func() {}
	}
	follower := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.followers[follower] = struct{}{}
	return follower, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.followers, follower)
	}
}

// AppendedChannel is the NOTIFY channel on which processes notify each other of appends. The payload is the id of the
// sending process, or empty.
const AppendedChannel = "novelgate_appended"

// notifyInterval is the minimum time between two notifications of one process. A NOTIFY in every append would take a
// lock that all appends share and halve their rate.
const notifyInterval = 50 * time.Millisecond

const notifySQL = `SELECT pg_notify($1, $2)`

// QueueNotification adds the notification of all processes to a batch that appends, as its last statement. It is for
// rare appends, such as those of staff: the commit of a notification holds a lock that all notifying transactions of
// the cluster share, and waits for it longer than for a row. Frequent appends call Signal.
func QueueNotification(batch *pgx.Batch) {
	batch.Queue(`SELECT pg_notify($1, ''), set_config('lock_timeout', $2, true)`, AppendedChannel, staffWait)
}

// Notify forwards the signals of this process to other processes until ctx ends: the first at once, later ones at most
// once in 50 ms. A lost notification only causes a delay, because followers also read once a second. It takes a
// connection only for the moment of each notification. A process runs it once.
func (w *Wake) Notify(ctx context.Context, db database.Execer, logger *slog.Logger) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.local:
		}
		if _, err := db.Exec(ctx, notifySQL, AppendedChannel, w.id); err != nil && ctx.Err() == nil {
			logger.WarnContext(ctx, "Other replicas were not told of new events; they find them within a second",
				slog.Any("error", fmt.Errorf("notify %s: %w", AppendedChannel, err)))
		}
		if !Sleep(ctx, notifyInterval) {
			return
		}
	}
}

// Listen signals when another process notifies of an append. It keeps its own connection, replaces it when it breaks,
// and returns when ctx ends.
func (w *Wake) Listen(ctx context.Context, config *pgx.ConnConfig, logger *slog.Logger) {
	database.Listen(ctx, config, logger, AppendedChannel, func(sender string) {
		if sender != w.id { // own appends were signalled earlier
			w.broadcast()
		}
	})
}
