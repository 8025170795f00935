package webhooks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"novelgate/events"
	"novelgate/events/eventlog"
)

// Message is a change of the feed to send.
type Message struct {
	ID, Type string
	Body     []byte        // JSON
	End      eventlog.Mark // after the event
}

// Feed reads the changes of partners.
type Feed interface {
	// Read returns up to limit changes of an integration from a position on, in log order, and only those that survive a
	// failover to a synchronous standby.
	Read(ctx context.Context, integration uuid.UUID, from events.Position, limit int) ([]Message, error)
}

// Worker sends changes to webhooks. Every replica may run one.
type Worker struct {
	Pool    *pgxpool.Pool
	Feed    Feed
	Sender  *Sender
	Now     func() time.Time // the clock of pauses
	Logger  *slog.Logger
	Metrics *prometheus.CounterVec // from NewMetrics
}

const (
	visits   = 64              // of a worker at a time
	changes  = 20              // of a visit, before other webhooks have theirs
	readTime = 5 * time.Second // longest time until the feed answers
	// lease is long enough for a read, an attempt and its save. After a crash another worker continues then.
	lease        = readTime + attemptTime + 5*time.Second
	longestPause = time.Hour
	disableAfter = 5 * 24 * time.Hour // of failures without a success
)

// NewMetrics returns the metric of attempts, at zero. The caller registers it.
func NewMetrics() *prometheus.CounterVec {
	attempts := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "novelgate_webhook_attempts_total", Help: "Attempts to send a change to a webhook: delivered or failed.",
	}, []string{"outcome"})
	attempts.WithLabelValues("delivered")
	attempts.WithLabelValues("failed")
	return attempts
}

// Run sends changes until ctx ends.
func (w *Worker) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	places := make(chan struct{}, visits)
	for ctx.Err() == nil {
		places <- struct{}{}
		v, err := w.claim(ctx)
		if err == nil && v != nil {
			running.Go(func() {
				defer func() { <-places }()
				w.visit(ctx, v)
			})
			continue
		}
		<-places
		pause := 500 * time.Millisecond
		if err != nil && ctx.Err() == nil {
			w.Logger.WarnContext(ctx, "webhooks are not sent at present", slog.Any("error", err))
			pause = 5 * time.Second
		}
		eventlog.Sleep(ctx, pause)
	}
}

// visit is a webhook that a worker has leased.
type visit struct {
	id, integration, holder uuid.UUID
	url                     string
	types                   []string // nil: all
	secrets                 [][]byte
	progress
}

// progress is how far a webhook is. Changes before the position were accepted, or are of types that it does not get.
type progress struct {
	position      events.Position
	failures      int        // consecutive
	failingSince  *time.Time // the first of them; nil without one
	nextAttemptAt time.Time
	disabled      *string
}

// claimSQL leases the webhook whose turn is the longest ago among those with changes to send. $1: holder; $2: length of
// the lease; $3: now.
const claimSQL = `WITH due AS (
    SELECT w.webhook_id FROM webhooks AS w JOIN integrations AS g ON g.integration_id = w.integration_id AND g.enabled
    WHERE w.disabled IS NULL AND w.next_attempt_at <= $3 AND (w.holder IS NULL OR w.leased_until < now())
        AND EXISTS (SELECT FROM changes AS c WHERE c.integration_id = w.integration_id AND c.log_index >= w.position)
    ORDER BY w.next_attempt_at, w.webhook_id LIMIT 1 FOR UPDATE OF w SKIP LOCKED
)
UPDATE webhooks AS w SET holder = $1, leased_until = now() + $2::interval FROM due WHERE w.webhook_id = due.webhook_id
RETURNING w.webhook_id, w.integration_id, w.url, w.types, ` + secretsColumn + `, w.position, w.failures, w.failing_since`

// claim leases a webhook; nil when there is none to visit.
func (w *Worker) claim(ctx context.Context) (*visit, error) {
	v := &visit{holder: uuid.New()}
	err := w.Pool.QueryRow(ctx, claimSQL, v.holder, lease, w.Now()).Scan(&v.id, &v.integration, &v.url, &v.types,
		&v.secrets, &v.position, &v.failures, &v.failingSince)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("lease a webhook: %w", err)
	}
	return v, nil
}

// visit sends changes of a webhook, and ends the lease.
func (w *Worker) visit(ctx context.Context, v *visit) {
	next := w.Now() // behind the webhooks that wait
	if err := w.deliver(ctx, v); err != nil && ctx.Err() == nil {
		w.Logger.WarnContext(ctx, "a webhook is not sent at present", slog.String("webhook", v.id.String()),
			slog.Any("error", err))
		next = next.Add(5 * time.Second)
	}
	// Also when ctx has ended, so that another worker need not wait for the end of the lease.
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if _, err := w.Pool.Exec(ending, `UPDATE webhooks SET holder = NULL, next_attempt_at = greatest(next_attempt_at, $3)
WHERE webhook_id = $1 AND holder = $2`, v.id, v.holder, next); err != nil {
		w.Logger.DebugContext(ctx, "the lease of a webhook ends by itself", slog.Any("error", err))
	}
}

// deliver sends changes until one fails, or the lease is lost.
func (w *Worker) deliver(ctx context.Context, v *visit) error {
	reading, cancel := context.WithTimeout(ctx, readTime) // a standby may be away
	defer cancel()
	found, err := w.Feed.Read(reading, v.integration, v.position, changes)
	if err != nil {
		return err
	}
	for i, m := range found {
		next, attempts := v.progress, []Attempt{}
		switch {
		case v.types == nil || slices.Contains(v.types, m.Type):
			at := w.Now()
			outcome := w.Sender.send(ctx, v.url, m.ID, m.Body, v.secrets...)
			if ctx.Err() != nil {
				return fmt.Errorf("the visit ends: %w", ctx.Err())
			}
			if outcome.Delivered {
				w.Metrics.WithLabelValues("delivered").Inc()
			} else {
				w.Metrics.WithLabelValues("failed").Inc()
			}
			next = v.after(&outcome, m.End.Position, w.Now())
			attempts = append(attempts, Attempt{At: at.UTC(), ID: m.ID, Type: m.Type, Outcome: outcome})
		case i < len(found)-1:
			continue // the next save moves the position behind this change, too
		default:
			next.position = m.End.Position
		}
		if held, err := w.save(ctx, v, next, m.End, attempts); err != nil || !held || next.failures > 0 {
			return err
		}
		v.progress = next
	}
	return nil
}

// after returns the progress of a webhook after an attempt to send the change that ends at a position.
func (p progress) after(outcome *Outcome, end events.Position, now time.Time) progress {
	if outcome.Delivered {
		return progress{position: end, nextAttemptAt: now}
	}
	p.failures++
	if p.failingSince == nil {
		p.failingSince = &now
	}
	pause := min(time.Second<<min(p.failures-1, 12), longestPause) // the shift must not overflow
	p.nextAttemptAt = now.Add(max(pause, outcome.retryAfter))
	switch {
	case outcome.gone():
		p.disabled = new("gone")
	case now.Sub(*p.failingSince) >= disableAfter:
		p.disabled = new("failing")
	}
	return p
}

// saveSQL saves progress and renews the lease, if the visit still has it, the webhook is still where the visit began,
// and the log has the change.
//
// $1: webhook; $2: holder; $3: position where the visit began; $4, $5: mark after the change; $6 to $10: progress; $11:
// time of a disabling; $12: attempts, newest first; $13: length of the lease
var saveSQL = `UPDATE webhooks SET position = $6, failures = $7, failing_since = $8, next_attempt_at = $9, disabled = $10,
    disabled_at = CASE WHEN $10::text IS NOT NULL THEN $11::timestamptz END,
    attempts = jsonb_path_query_array($12::jsonb || attempts, '$[0 to 19]'), leased_until = now() + $13::interval
WHERE webhook_id = $1 AND holder = $2 AND position = $3 AND ` + eventlog.HasMarkSQL("$4::bigint", "$5::uuid")

// save saves progress. held is false, and nothing is saved, when the webhook was changed, another worker has leased it,
// or a failover has set the database back.
func (w *Worker) save(
	ctx context.Context, v *visit, next progress, end eventlog.Mark, attempts []Attempt,
) (held bool, err error) {
	tag, err := w.Pool.Exec(ctx, saveSQL, v.id, v.holder, v.position, end.Position, end.Batch, next.position,
		next.failures, next.failingSince, next.nextAttemptAt, next.disabled, w.Now(), attempts, lease)
	if err != nil {
		return false, fmt.Errorf("save the progress of a webhook: %w", err)
	}
	if held = tag.RowsAffected() > 0; held && next.disabled != nil {
		w.Logger.WarnContext(ctx, "a webhook is disabled", slog.String("webhook", v.id.String()),
			slog.String("integration", v.integration.String()), slog.String("reason", *next.disabled))
	}
	return held, nil
}
