package refusals

import "context"

// Bounds of a recorder.
const (
	MaxWaiting = maxWaiting
	MaxShare   = maxShare
)

// Flush stores the queue.
func (r *Recorder) Flush(ctx context.Context) error { return r.flush(ctx) }

// StoreOnly stores the queue, and forgets that it did, as when the answer of the database is lost.
func (r *Recorder) StoreOnly(ctx context.Context) error { return r.store(ctx, r.waiting) }
