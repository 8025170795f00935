package webhooks

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/database"
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

// Worker sends changes to webhooks. Its fields are set before Run.
type Worker struct {
	Store   *Store
	Feed    Feed
	Sender  *Sender
	Retries []time.Duration // waits between the attempts of a change; the last one repeats while the endpoint fails
	Logger  *slog.Logger
	Metrics *prometheus.CounterVec // from NewMetrics
}

// Times and limits of a worker.
const (
	quickVisits    = 32                     // concurrent, to endpoints that were fast
	slowVisits     = 16                     // concurrent, to other endpoints
	idlePause      = 500 * time.Millisecond // between checks for work
	retryPause     = 5 * time.Second        // after a failure of the database
	lease          = time.Minute            // more than the longest attempt and its save
	visitTime      = 10 * time.Second       // of a visit, before another webhook's turn
	slowTime       = 2 * time.Second        // from here on an attempt counts as slow
	endTime        = 5 * time.Second        // for the last save
	changesPerRead = 20                     // new changes read at a time
	retriesPerRead = 10                     // retries read at a time; fewer than failingAfter
	failingAfter   = 20                     // consecutive failures; from here on the endpoint counts as failing
	failingPause   = 5 * time.Minute        // between attempts while the endpoint fails
	disableAfter   = 5 * 24 * time.Hour     // of failures without a success
	retention      = 7 * 24 * time.Hour     // of finished attempts
	purgeEvery     = 10 * time.Minute
	jitterShares   = 10 // a wait is extended by up to 1/jitterShares
)

var (
	//go:embed claim.sql
	claimSQL string
	//go:embed record.sql
	recordTemplate string
	recordSQL      = strings.Replace(recordTemplate, "/* the log has it */",
		eventlog.HasMarkSQL("$4::bigint", "$5::uuid"), 1)
)

// errLeaseLost ends a visit: the webhook was changed, another worker has leased it, or a failover has set the database
// back. What was sent and not saved is sent again.
var errLeaseLost = errors.New("the lease of the webhook has ended, or the database was set back")

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
	running.Go(func() { w.dispatch(ctx, false, quickVisits) })
	running.Go(func() { w.dispatch(ctx, true, slowVisits) })
	running.Go(func() { w.purge(ctx) })
	running.Wait()
}

// dispatch visits webhooks, up to limit at a time.
func (w *Worker) dispatch(ctx context.Context, slow bool, limit int) {
	var visits sync.WaitGroup
	defer visits.Wait()
	free := make(chan struct{}, limit)
	for {
		select {
		case <-ctx.Done():
			return
		case free <- struct{}{}:
		}
		v, err := w.claim(ctx, slow)
		pause := idlePause
		switch {
		case err != nil && ctx.Err() == nil:
			w.Logger.WarnContext(ctx, "webhooks are not sent at present", slog.Any("error", err))
			pause = retryPause
		case v != nil:
			visits.Go(func() {
				defer func() { <-free }()
				w.visit(ctx, v)
			})
			continue
		}
		<-free
		if !eventlog.Sleep(ctx, pause) {
			return
		}
	}
}

const purgeSQL = `DELETE FROM webhook_attempts WHERE (webhook_id, log_index) IN (
    SELECT webhook_id, log_index FROM webhook_attempts WHERE next_at IS NULL AND last_at < now() - $1::interval LIMIT 10000)`

func (w *Worker) purge(ctx context.Context) {
	for {
		if _, err := w.Store.Pool.Exec(ctx, purgeSQL, retention); err != nil && ctx.Err() == nil {
			w.Logger.WarnContext(ctx, "old attempts of webhooks are not deleted yet", slog.Any("error", err))
		}
		if !eventlog.Sleep(ctx, purgeEvery) {
			return
		}
	}
}

// visit is a webhook that a worker has leased.
type visit struct {
	id, integration, holder uuid.UUID
	url                     string
	types                   []string // see wants
	secrets                 [][]byte
	position                events.Position // see Outbox in doc.go
	failures                int             // consecutive
	succeededAt             *time.Time      // last success; nil without one
}

func (v *visit) wants(kind string) bool { return v.types == nil || slices.Contains(v.types, kind) }

// claim leases a webhook; nil when there is none.
func (w *Worker) claim(ctx context.Context, slow bool) (*visit, error) {
	v := &visit{holder: uuid.New()}
	var secret, previous []byte
	err := w.Store.Pool.QueryRow(ctx, claimSQL, v.holder, lease, slow).Scan(&v.id, &v.integration, &v.url, &v.types,
		&secret, &previous, &v.position, &v.failures, &v.succeededAt)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("lease a webhook: %w", err)
	}
	v.secrets = signingSecrets(secret, previous)
	return v, nil
}

// visit sends the due changes of a webhook, and ends the lease.
func (w *Worker) visit(ctx context.Context, v *visit) {
	until, cancel := context.WithTimeout(ctx, visitTime)
	defer cancel()
	err := w.work(ctx, until, v)
	if err != nil && ctx.Err() == nil && !errors.Is(err, errLeaseLost) {
		w.Logger.WarnContext(ctx, "a webhook is not sent at present", slog.String("webhook", v.id.String()),
			slog.Any("error", err))
		eventlog.Sleep(ctx, retryPause) // otherwise it would be visited again at once
	}
	// Also when ctx has ended, so that another worker need not wait for the end of the lease.
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	if _, err := w.Store.Pool.Exec(end, `UPDATE webhooks SET holder = NULL WHERE webhook_id = $1 AND holder = $2`, v.id,
		v.holder); err != nil {
		w.Logger.DebugContext(ctx, "the lease of a webhook ends by itself", slog.Any("error", err))
	}
}

// errEndVisit ends a visit before all changes are sent.
var errEndVisit = errors.New("the visit ends early")

// work sends new changes and retries in turns, while there are any, and ends with the context until. New changes come
// first, so that they do not wait for retries that an endpoint always refuses.
func (w *Worker) work(ctx, until context.Context, v *visit) error {
	for more := true; more; {
		advanced, err := w.advance(ctx, until, v)
		if err == nil {
			more, err = w.retry(ctx, until, v)
		}
		if errors.Is(err, errEndVisit) {
			return nil
		}
		if err != nil {
			return err
		}
		more = more || advanced
	}
	return nil
}

// retryRow is a change to send again, as the table webhook_attempts has it.
type retryRow struct {
	LogIndex int64
	Attempts int
	FirstAt  time.Time
}

const dueSQL = `SELECT log_index, attempts, first_at FROM webhook_attempts
WHERE webhook_id = $1 AND next_at <= now() ORDER BY next_at LIMIT $2`

// retry sends the changes again whose next attempt is due. It reports whether there may be more.
func (w *Worker) retry(ctx, until context.Context, v *visit) (more bool, err error) {
	due, err := database.Collect(ctx, w.Store.Pool, "retries", pgx.RowToStructByPos[retryRow], dueSQL, v.id,
		retriesPerRead)
	if err != nil {
		return false, err
	}
	for _, r := range due {
		at := events.Position(r.LogIndex)
		found, err := w.read(ctx, v, at, 1)
		if err != nil {
			return false, err
		}
		if len(found) == 0 || found[0].End.Position != at+1 || !v.wants(found[0].Type) {
			// The partner has changed the types, or a rebuild has removed the change from the feed.
			if err := w.forget(ctx, v, r.LogIndex); err != nil {
				return false, err
			}
			continue
		}
		if err := w.attempt(ctx, until, v, &found[0], &r); err != nil {
			return false, err
		}
	}
	return len(due) == retriesPerRead, nil
}

const forgetSQL = `DELETE FROM webhook_attempts WHERE webhook_id = $1 AND log_index = $3
    AND EXISTS (SELECT FROM webhooks WHERE webhook_id = $1 AND holder = $2)`

// forget deletes a retry. Without the lease it deletes nothing: the partner may just have asked for its type again.
func (w *Worker) forget(ctx context.Context, v *visit, logIndex int64) error {
	tag, err := w.Store.Pool.Exec(ctx, forgetSQL, v.id, v.holder, logIndex)
	if err != nil {
		return fmt.Errorf("delete the retry of an unwanted change: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return errLeaseLost
	}
	return nil
}

const holdsSQL = `SELECT EXISTS (SELECT FROM webhooks WHERE webhook_id = $1 AND holder = $2 AND leased_until > now())`

// read reads changes to send, and then checks the lease: the settings of the webhook may have changed since the visit
// read them, which is long ago if the read has waited for a standby. From the second attempt at changes of one read on,
// the save of the attempt before has checked it.
func (w *Worker) read(ctx context.Context, v *visit, from events.Position, limit int) ([]Message, error) {
	found, err := w.Feed.Read(ctx, v.integration, from, limit)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	var holds bool
	if err := w.Store.Pool.QueryRow(ctx, holdsSQL, v.id, v.holder).Scan(&holds); err != nil {
		return nil, fmt.Errorf("check the lease: %w", err)
	}
	if !holds {
		return nil, errLeaseLost
	}
	return found, nil
}

// advance sends new changes. It reports whether there may be more.
func (w *Worker) advance(ctx, until context.Context, v *visit) (more bool, err error) {
	found, err := w.read(ctx, v, v.position, changesPerRead)
	if err != nil {
		return false, err
	}
	var skipped *Message // last of the preceding changes that the webhook does not want
	for i := range found {
		m := &found[i]
		if !v.wants(m.Type) {
			skipped = m
			continue
		}
		if err := w.attempt(ctx, until, v, m, nil); err != nil {
			return false, err
		}
		v.position, skipped = m.End.Position, nil
	}
	if skipped != nil {
		if err := w.skipTo(ctx, v, skipped); err != nil {
			return false, err
		}
	}
	return len(found) == changesPerRead, nil
}

// skipSQL moves the position under the conditions of record.sql. $1: webhook; $2: holder; $3: position where the worker
// began; $4, $5: mark of the new one.
var skipSQL = `UPDATE webhooks SET position = $4
WHERE webhook_id = $1 AND holder = $2 AND position = $3 AND ` + eventlog.HasMarkSQL("$4::bigint", "$5::uuid")

// skipTo moves the position behind the last of some changes that the webhook does not want.
func (w *Worker) skipTo(ctx context.Context, v *visit, last *Message) error {
	tag, err := w.Store.Pool.Exec(ctx, skipSQL, v.id, v.holder, v.position, last.End.Position, last.End.Batch)
	if err != nil {
		return fmt.Errorf("skip changes: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return errLeaseLost
	}
	v.position = last.End.Position
	return nil
}

// attempt sends a change and saves the outcome. again is nil for a new change. It fails with errEndVisit when the visit
// must end: before an attempt, or after the save of its outcome.
func (w *Worker) attempt(ctx, until context.Context, v *visit, m *Message, again *retryRow) error {
	if until.Err() != nil {
		return errEndVisit
	}
	o := w.Sender.send(ctx, v.url, m.ID, m.Body, v.secrets...)
	if ctx.Err() != nil {
		return fmt.Errorf("the service is shutting down: %w", ctx.Err())
	}
	if !o.Delivered {
		w.Metrics.WithLabelValues("failed").Inc()
		v.failures++
		rest := o.retryAfter
		if v.failures >= failingAfter {
			rest = max(rest, failingPause)
		}
		return w.record(ctx, v, m, again, &o, w.next(v, again, o.retryAfter), rest)
	}
	w.Metrics.WithLabelValues("delivered").Inc()
	recovered := v.failures >= failingAfter
	v.failures = 0
	if err := w.record(ctx, v, m, again, &o, nil, 0); err != nil || !recovered {
		return err
	}
	if _, err := w.Store.Pool.Exec(ctx, retryNowSQL, v.id); err != nil {
		return fmt.Errorf("retry at once: %w", err)
	}
	return nil
}

const retryNowSQL = `UPDATE webhook_attempts SET next_at = now() WHERE webhook_id = $1 AND next_at > now()`

// record saves the outcome of an attempt. next is the time to the next attempt of the change, nil for none; rest is the
// time until the endpoint gets another request.
func (w *Worker) record(
	ctx context.Context, v *visit, m *Message, again *retryRow, o *Outcome, next *time.Duration, rest time.Duration,
) error {
	slow := o.Milliseconds >= int(slowTime.Milliseconds())
	began := &v.position
	if again != nil {
		began = nil
	}
	var disabled *string
	err := w.Store.Pool.QueryRow(ctx, recordSQL, v.id, v.holder, began, m.End.Position, m.End.Batch, m.ID, m.Type,
		o.Delivered, o.Status, o.Error, o.Milliseconds, next, lease, rest, slow, o.gone(), disableAfter,
	).Scan(&disabled, &v.succeededAt)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return errLeaseLost
	case err != nil:
		return fmt.Errorf("save the outcome of an attempt: %w", err)
	case disabled != nil:
		w.Logger.WarnContext(ctx, "a webhook is disabled", slog.String("webhook", v.id.String()),
			slog.String("integration", v.integration.String()), slog.String("reason", *disabled))
		return errEndVisit
	case slow, rest > 0:
		return errEndVisit
	}
	return nil
}

// next returns the time to the next attempt after a failure, or nil to give the change up. It gives up only if the
// endpoint has accepted another change since the first attempt.
func (w *Worker) next(v *visit, again *retryRow, retryAfter time.Duration) *time.Duration {
	attempts := 1
	if again != nil {
		attempts += again.Attempts
	}
	if attempts > len(w.Retries) {
		if v.succeededAt != nil && v.succeededAt.After(again.FirstAt) {
			return nil
		}
		attempts = len(w.Retries)
	}
	wait := w.Retries[attempts-1]
	wait += rand.N(wait/jitterShares + 1) //nolint:gosec // not a secret
	return new(max(wait, retryAfter))
}
