package imports

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"novelgate/commands/committer"
	"novelgate/commands/ratelimit"
	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/database"
	"novelgate/internal/httpkit"
	"novelgate/internal/problem"
)

// Committer executes commands: a *committer.Committer.
type Committer interface {
	Submit(ctx context.Context, cmd *committer.Command) (committer.Submitted, error)
}

// Limiter counts lines per minute: a *ratelimit.Limiter.
type Limiter interface {
	Take(ctx context.Context, db database.Beginner, k ratelimit.Key, limit, n int) (ratelimit.Decision, error)
	Return(ctx context.Context, db database.Execer, k ratelimit.Key, taken ratelimit.Decision, n int) error
}

// Worker executes the lines of imports. Its fields are set before Run.
type Worker struct {
	Store     *Store
	Committer Committer
	Limiter   Limiter
	Addresses httpkit.Addresses
	Problem   func(error) *problem.Error // maps an error of a command to a problem
	Now       func() time.Time
	Logger    *slog.Logger
	Metrics   *prometheus.CounterVec // from NewMetrics

	wake chan struct{} // see Wake
}

// NewMetrics returns the metric of lines. The caller registers it.
func NewMetrics() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "novelgate_import_lines_total", Help: "Lines of bulk imports by outcome.",
	}, []string{"outcome"})
}

// Times and limits of a worker.
const (
	concurrentVisits = 2               // one chunk is committed while the outcomes of the other are saved
	idlePause        = time.Second     // between checks for work that another replica has received
	retryPause       = time.Second     // after a failure of the database, and before lines are retried
	saveInterval     = 2 * time.Second // between saves of a chunk
	endTime          = 5 * time.Second // for the last save of a visit
	purgeEvery       = time.Minute     // maximum time between purges
)

// NewWorker returns a Worker; set its other fields.
func NewWorker(store *Store) *Worker {
	return &Worker{Store: store, wake: make(chan struct{}, concurrentVisits)}
}

// Wake notifies the worker of possible work. It does not block.
func (w *Worker) Wake() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Run executes lines until ctx ends. Then it saves the outcomes so far and ends its leases.
func (w *Worker) Run(ctx context.Context) {
	var running sync.WaitGroup
	pace := newPace(w.Store.Pool, w.Now)
	for range concurrentVisits {
		running.Go(func() { w.work(ctx, uuid.New(), pace) })
	}
	w.purge(ctx)
	running.Wait()
}

func (w *Worker) purge(ctx context.Context) {
	for {
		if err := w.Store.purge(ctx); err != nil && ctx.Err() == nil {
			w.Logger.WarnContext(ctx, "imports beyond their retention are not deleted yet", slog.Any("error", err))
		}
		if !eventlog.Sleep(ctx, min(purgeEvery, w.Store.Retention/4)) {
			return
		}
	}
}

// work visits chunks, one at a time, as this holder of leases.
func (w *Worker) work(ctx context.Context, holder uuid.UUID, pace *pace) {
	for ctx.Err() == nil {
		found, err := w.step(ctx, holder, pace)
		switch {
		case err != nil && ctx.Err() == nil:
			w.Logger.WarnContext(ctx, "lines of imports are not executed at present", slog.Any("error", err))
			eventlog.Sleep(ctx, retryPause)
		case !found:
			select {
			case <-ctx.Done():
			case <-w.wake:
			case <-time.After(idlePause):
			}
		}
	}
}

// step visits one chunk or, if none is due, advances the imports. It returns false when there was nothing to do.
func (w *Worker) step(ctx context.Context, holder uuid.UUID, pace *pace) (bool, error) {
	v, err := w.Store.claim(ctx, holder, w.Now())
	if err != nil {
		return false, err
	}
	if v == nil {
		return w.Store.advance(ctx)
	}
	if v.idle() {
		return true, w.Store.release(ctx, v, holder)
	}
	err = w.visit(ctx, v, holder, pace)
	if errors.Is(err, errLeaseLost) {
		w.Logger.InfoContext(ctx, "the lease of a chunk is lost", slog.String("import", v.importID.String()))
		return true, nil
	}
	return true, err
}

// visit executes the due lines of a chunk, as long as there are permits.
func (w *Worker) visit(ctx context.Context, v *visit, holder uuid.UUID, pace *pace) error {
	var pause time.Duration // of the import
	// due begins again at the first line, so that lines to retry, and replies whose parent this visit has stored, come
	// before later lines.
	for due := v.due(); len(due) > 0 && ctx.Err() == nil && pause == 0; due = v.due() {
		if now := w.Now(); now.Sub(v.leasedAt) > saveInterval {
			state, err := w.Store.save(ctx, v, holder, now, false, 0)
			if err != nil {
				return err
			}
			if state == Cancelled || state == Abandoned {
				break
			}
		}
		var err error
		if pause, err = w.executeSome(ctx, v, due, pace); err != nil {
			return err
		}
	}
	// Also when ctx has ended, so that another worker need not wait for the end of the lease.
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	_, err := w.Store.save(end, v, holder, w.Now(), true, pause)
	return err
}

// executeSome executes the first of the due lines, at most as many as there are permits. It returns how long the import
// must pause: until there are more permits, or after a failure of the limiter.
func (w *Worker) executeSome(ctx context.Context, v *visit, due []int, pace *pace) (pause time.Duration, err error) {
	wanted := min(len(due), pace.group(ctx))
	lines := ratelimit.Key{Integration: v.integrationID, Operation: ratelimit.Lines}
	taken, err := w.Limiter.Take(ctx, w.Store.Pool, lines, v.perMinute, wanted)
	if err != nil {
		return w.limiterFailed(ctx, err), nil
	}
	if taken.Granted < wanted {
		pause = max(taken.RetryAfter, time.Second)
	}
	leave := pace.enter(ctx)
	began, before := w.Now(), len(v.results)
	retry, err := w.execute(ctx, v, due[:taken.Granted])
	pace.rest(ctx, w.Now().Sub(began))
	leave()
	if err != nil {
		return 0, err
	}
	// A line uses a permit when it gets its outcome. Return the other permits, of lines that wait, are retried or were
	// not submitted. The import need not pause then.
	if unused := taken.Granted - (len(v.results) - before); unused > 0 {
		if err := w.Limiter.Return(ctx, w.Store.Pool, lines, taken, unused); err != nil {
			return w.limiterFailed(ctx, err), nil
		}
		pause = 0
	}
	if retry {
		eventlog.Sleep(ctx, retryPause)
	}
	return pause, nil
}

// limiterFailed logs an error of the limiter and returns the pause until the next attempt; 0 when ctx has ended.
func (w *Worker) limiterFailed(ctx context.Context, err error) (pause time.Duration) {
	if ctx.Err() != nil {
		return 0
	}
	w.Logger.WarnContext(ctx, "lines of imports are not executed at present", slog.Any("error", err))
	return retryPause
}

// sent is a submitted line.
type sent struct {
	index   int
	line    Line
	command committer.Submitted
	err     error // of Submit
}

// execute submits lines in order and records their outcomes. It stops when submitTime is over, and before the second
// upsert of a title, because a retry of the first would come after it. It reports whether a line must be retried.
func (w *Worker) execute(ctx context.Context, v *visit, due []int) (retry bool, err error) {
	submitted := make([]sent, 0, len(due))
	upserts := map[string]struct{}{}
	for _, index := range due {
		if w.Now().Sub(v.leasedAt) > submitTime {
			break
		}
		line, err := ParseLine(v.lines[index], v.receivedAt, v.allowed)
		if err != nil {
			r := failure(v.number(index), &line, v.requestID(index), problem.From(err))
			if err := v.record(index, &r); err != nil {
				return false, err
			}
			w.Metrics.WithLabelValues(string(Failed)).Inc()
			continue
		}
		if line.Novel != nil {
			if _, again := upserts[line.Novel.FoldedTitle]; again {
				break
			}
			upserts[line.Novel.FoldedTitle] = struct{}{}
		}
		s := sent{index: index, line: line}
		// Not with ctx: wait for submitted lines, so that their outcomes are saved.
		s.command, s.err = w.Committer.Submit(context.WithoutCancel(ctx), v.command(index, &line))
		submitted = append(submitted, s)
	}
	for i := range submitted {
		again, err := w.awaitOutcome(ctx, v, &submitted[i])
		if err != nil {
			return false, err
		}
		retry = retry || again
	}
	return retry, nil
}

// awaitOutcome waits for a submitted line and records its outcome, or that it waits for its parent. It returns true if
// the line must be retried.
func (w *Worker) awaitOutcome(ctx context.Context, v *visit, s *sent) (retry bool, err error) {
	number, id, err := v.number(s.index), v.requestID(s.index), s.err
	var got committer.Result
	if err == nil {
		got, err = s.command.Wait(context.WithoutCancel(ctx))
	}
	var r Result
	switch {
	case errors.Is(err, committer.ErrOtherServer): // the new primary may not have the lease
		return false, errLeaseLost
	case errors.Is(err, committer.ErrParentUnknown):
		v.waiting[s.index] = &waiter{
			post:   events.PostID(v.integrationID, s.line.Key),
			parent: events.PostID(v.integrationID, *s.line.Post.ParentKey),
		}
		return false, nil
	case err != nil:
		p := w.Problem(err)
		if p.Code.Retryable() {
			return true, nil
		}
		if p.Code == problem.CodeInternal {
			w.Logger.ErrorContext(ctx, "a line failed", slog.String("requestId", id), slog.Any("error", err))
		}
		r = failure(number, &s.line, id, p)
	default:
		r = resultOf(number, &s.line, id, &got, w.Addresses)
	}
	w.Metrics.WithLabelValues(string(r.Status)).Inc()
	return false, v.record(s.index, &r)
}

// command returns the command of a line.
func (v *visit) command(index int, line *Line) *committer.Command {
	caller := committer.Caller{
		IntegrationID: v.integrationID, KeyID: v.keyID, CanCreateNovels: v.canCreateNovels, Review: v.review,
		Unlimited: true, RequestID: v.requestID(index),
	}
	if line.Novel != nil {
		cmd := committer.NewUpsertNovel(caller, line.Key, line.Novel)
		cmd.Server = v.server
		return cmd
	}
	cmd := committer.NewImportPost(caller, line.Key, line.Post)
	cmd.Server = v.server
	waits := v.waiting[index] // a ready reply is stored even if its parent is missing
	cmd.Comment.AwaitParent = (waits == nil || !waits.ready) && line.awaitsParent()
	return cmd
}

// allowed checks the capability of the integration.
func (v *visit) allowed(operation ratelimit.Operation) error {
	if operation == ratelimit.Novels && !v.canCreateNovels {
		return problem.CapabilityDisabled("This integration lacks the capability to create novels.")
	}
	if operation == ratelimit.Posts && !v.canPost {
		return problem.CapabilityDisabled("This integration lacks the capability of post ingestion.")
	}
	return nil
}
