package web

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"novelgate/internal/problem"
)

// Refusal is a command that was refused because of what its client has sent.
type Refusal struct {
	RequestID   string
	Integration uuid.UUID // zero without a valid API key
	Operation   string
	Problem     *problem.Error
	Key         string // Idempotency-Key; "" without a valid one
}

// maxRefusals is how many refusals are logged in a second, so that a client that repeats them cannot fill the disk.
const maxRefusals = 5

// refusals counts those of the current second.
type refusals struct {
	mu    sync.Mutex
	count int
}

// LogRefusal logs a refused command, or counts it if there were more than maxRefusals in this second, and passes that
// of an integration to Refused. It ignores failures of the service, which Report logs.
func (k *Kit) LogRefusal(ctx context.Context, r Refusal) {
	code := r.Problem.Code
	if code == problem.CodeInternal || code == problem.CodeUnavailable {
		return
	}
	if k.Refused != nil && r.Integration != uuid.Nil {
		k.Refused(r)
	}
	k.refusals.mu.Lock()
	defer k.refusals.mu.Unlock()
	if k.refusals.count++; k.refusals.count == 1 {
		time.AfterFunc(time.Second, func() { k.endRefusals(context.WithoutCancel(ctx)) })
	}
	if k.refusals.count > maxRefusals {
		return
	}
	integration := ""
	if r.Integration != uuid.Nil {
		integration = r.Integration.String()
	}
	k.Logger.InfoContext(ctx, "command refused", slog.String("requestId", r.RequestID),
		slog.String("integration", integration), slog.String("operation", r.Operation),
		slog.Int("status", code.Status()), slog.String("code", string(code)), slog.String("key", r.Key))
}

// endRefusals ends a second.
func (k *Kit) endRefusals(ctx context.Context) {
	k.refusals.mu.Lock()
	defer k.refusals.mu.Unlock()
	if more := k.refusals.count - maxRefusals; more > 0 {
		k.Logger.InfoContext(ctx, "more commands refused", slog.Int("commands", more))
	}
	k.refusals.count = 0
}
