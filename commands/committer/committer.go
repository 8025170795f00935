package committer

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/commands/ratelimit"
	"novelgate/events/eventlog"
)

// Limiter limits the creations and updates of novels: a *ratelimit.Limiter.
type Limiter interface {
	Take(ctx context.Context, integrationID uuid.UUID, operation ratelimit.Operation, limit, n int) (ratelimit.Decision,
		error)
	Return(ctx context.Context, integrationID uuid.UUID, operation ratelimit.Operation, taken ratelimit.Decision,
		n int) error
}

// Config of a Committer.
type Config struct {
	Pool    *pgxpool.Pool // the Append pool of internal/database; at least Lanes connections
	Limiter Limiter
	// Breaker ends a stopped holder of the lock of the log. It needs another pool: Pool has no connection to spare.
	Breaker *eventlog.Breaker
	Logger  *slog.Logger
	Metrics *Metrics

	Lanes       int // batches in flight at a time; default: see DefaultLanes
	MaxBatch    int // commands in one transaction; default 256
	QueueLength int // commands that may wait in each lane; default 1024
	// Share limits the commands of one integration in the lanes; default 256: the commands of other integrations then wait
	// for at most one batch of this integration.
	Share      int
	ShareQueue int           // commands of one integration that wait to enter a lane; default 1024
	Timeout    time.Duration // limit for the attempts at a command; default 1.5 s
	Committed  func()        // called after each commit that appended events; must not block
}

// DefaultLanes is one lane for two processors. A second lane for them makes the batches smaller, which costs a fifth
// more processor time per command at 64 connections; see docs/decisions/0029-one-lane.md.
func DefaultLanes() int { return max(1, runtime.NumCPU()/2) }

func (c *Config) setDefaults() {
	c.Lanes = cmp.Or(c.Lanes, DefaultLanes())
	c.MaxBatch = cmp.Or(c.MaxBatch, 256)
	c.QueueLength = cmp.Or(c.QueueLength, 1024)
	c.Share = cmp.Or(c.Share, 256)
	c.ShareQueue = cmp.Or(c.ShareQueue, 1024)
	c.Timeout = cmp.Or(c.Timeout, 1500*time.Millisecond)
	if c.Committed == nil {
		c.Committed = func() {}
	}
	if c.Metrics == nil {
		c.Metrics = NewMetrics()
	}
}

// Committer executes commands in batches (group commit). Create it with New, stop it with Close.
type Committer struct {
	config Config
	// connectionAttempts is the number of consecutive connection failures before the database counts as down: one more
	// than the connections of the pool, because a restart of the database breaks all of them.
	connectionAttempts int

	shares *ratelimit.Shares // of the integrations in the lanes
	lanes  []*lane
	seed   maphash.Seed
	wg     sync.WaitGroup

	connections atomic.Int64 // that the lanes have used; see connectionEpoch

	mu     sync.RWMutex // held for reading while a job enters a lane
	closed bool
}

// New returns a Committer whose lanes are running.
func New(config Config) *Committer {
	config.setDefaults()
	c := &Committer{
		config: config, connectionAttempts: int(config.Pool.Config().MaxConns) + 1,
		shares: ratelimit.NewShares(config.Share, config.ShareQueue),
		lanes:  make([]*lane, config.Lanes), seed: maphash.MakeSeed(),
	}
	for i := range c.lanes {
		c.lanes[i] = c.newLane()
		c.wg.Go(c.lanes[i].serve)
	}
	return c
}

// Execute executes a command. It fails with *RateLimitedError, ratelimit.ErrShareExceeded, an error of this package, or
// any error if the command cannot be decided or stored; an upsert also with novel.ErrRejected, a comment with
// post.ErrNovelNotFound or author.ErrBlocked. When ctx ends after the command has joined its lane, it fails with
// ErrOutcomeUnknown, because the command may still be executed.
func (c *Committer) Execute(ctx context.Context, cmd *Command) (Result, error) {
	submitted, err := c.Submit(ctx, cmd)
	if err != nil {
		return Result{}, err
	}
	return submitted.Wait(ctx)
}

// Submit passes a command to its lane. It waits until the share of the integration allows this. If one call returns
// before the next one begins, commands on one title execute in this order, unless one meets a lock of another session.
// If Submit fails, the command is not executed; the errors are those of Execute.
func (c *Committer) Submit(ctx context.Context, cmd *Command) (Submitted, error) {
	if ctx.Err() != nil {
		return Submitted{}, fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
	}
	if err := c.shares.Take(ctx, cmd.Caller.IntegrationID); err != nil {
		return Submitted{}, err
	}
	j := newJob(cmd)
	if err := c.enqueue(j); err != nil {
		c.shares.Return(cmd.Caller.IntegrationID)
		return Submitted{}, err
	}
	return Submitted{j}, nil
}

// Submitted is a command that Submit has passed to its lane.
type Submitted struct{ job *job }

// Wait waits for the result.
func (s Submitted) Wait(ctx context.Context) (Result, error) {
	select {
	case <-s.job.done:
		return s.job.result, s.job.err
	case <-ctx.Done():
		return Result{}, ErrOutcomeUnknown
	}
}

func (c *Committer) enqueue(j *job) error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.closed {
		return ErrClosed
	}
	lane := c.lanes[maphash.String(c.seed, j.FoldedTitle)%uint64(len(c.lanes))]
	select {
	case lane.queue <- j:
		return nil
	default:
		return ErrQueueFull
	}
}

// QueueDepth returns how many commands wait for their lane.
func (c *Committer) QueueDepth() int {
	depth := 0
	for _, lane := range c.lanes {
		depth += len(lane.queue)
	}
	return depth
}

// Close refuses further commands and returns when all accepted ones are answered.
func (c *Committer) Close() {
	c.mu.Lock()
	if !c.closed {
		c.closed = true
		for _, lane := range c.lanes {
			close(lane.queue)
		}
	}
	c.mu.Unlock()
	c.wg.Wait()
}

// lockPause is how long an idle lane waits before it retries commands on a locked title.
const lockPause = 20 * time.Millisecond

// plainBatches is the number of batches that take the plain path after a retried comment. Partners retry in bursts
// after an outage, and on the fast path each batch with a retry fails first: with one retry in ten commands and 64
// connections, this took 1.7 times the processor time. See docs/decisions/0013-fast-path.md.
const plainBatches = 64

// lane executes the commands on its titles, one batch at a time.
type lane struct {
	*Committer
	queue     chan *job
	cache     *titleCache
	plainLeft int      // next batches that take the plain path: see plainBatches
	locked    [][]*job // lock groups that were set apart; see job.lockGroup
}

func (c *Committer) newLane() *lane {
	return &lane{Committer: c, queue: make(chan *job, c.config.QueueLength), cache: newTitleCache()}
}

// serve runs the lane until its queue is closed and all its commands are answered.
func (l *lane) serve() {
	buffer := make([]*job, 0, l.config.MaxBatch)
	for open := true; open || len(l.locked) > 0; {
		var jobs []*job
		if jobs, open = l.gather(buffer); len(jobs) > 0 {
			l.config.Metrics.batchSize.Observe(float64(len(jobs)))
			l.run(jobs)
		}
		l.retryLocked()
	}
}

// gather waits for a command and returns it with all other queued commands, up to MaxBatch. It returns none when locked
// commands are due for a retry. open is false when the queue is closed and empty.
func (l *lane) gather(jobs []*job) (_ []*job, open bool) {
	var pause <-chan time.Time
	if len(l.locked) > 0 {
		pause = time.After(lockPause)
	}
	var first *job
	select {
	case <-pause:
		return nil, true
	case first, open = <-l.queue:
	}
	if !open {
		if pause != nil {
			<-pause
		}
		return nil, false
	}
	deadline := time.Now().Add(l.config.Timeout) //nolint:forbidigo // deadline for locks
	jobs = l.take(jobs, first, deadline)
	// Let requests that are about to submit do so first.
	runtime.Gosched()
	for len(jobs) < l.config.MaxBatch {
		select {
		case next, ok := <-l.queue:
			if !ok {
				return jobs, true
			}
			jobs = l.take(jobs, next, deadline)
		default:
			return jobs, true
		}
	}
	return jobs, true
}

// take adds a command to the batch or, to keep the order, to its lock group if that is set apart.
func (l *lane) take(jobs []*job, j *job, deadline time.Time) []*job {
	if j.deadline = deadline; l.addToLocked(j) {
		return jobs
	}
	return append(jobs, j)
}

// setApart keeps commands of one lock group for a later attempt.
func (l *lane) setApart(jobs []*job) {
	if !l.addToLocked(jobs...) {
		l.locked = append(l.locked, slices.Clone(jobs)) // the lane reuses the array of its batch
	}
}

// addToLocked adds commands of one lock group to this group if it is set apart, and reports whether it is.
func (l *lane) addToLocked(jobs ...*job) bool {
	for i, group := range l.locked {
		if group[0].lockGroup() == jobs[0].lockGroup() {
			l.locked[i] = append(group, jobs...)
			return true
		}
	}
	return false
}

// retryLocked retries one group of locked commands, after it has refused those whose deadline has passed. If the lock
// is still held, the group stays set apart. This blocks the lane for at most one lock_timeout on each path.
func (l *lane) retryLocked() {
	if len(l.locked) == 0 {
		return
	}
	group := l.locked[0]
	l.locked = slices.Delete(l.locked, 0, 1)
	now, expired := time.Now(), 0 //nolint:forbidigo // compared with the deadlines of the commands
	for expired < len(group) && !now.Before(group[expired].deadline) {
		expired++
	}
	if expired > 0 {
		l.config.Logger.WarnContext(context.Background(), "commands not executed: another session locks their title or key",
			slog.String("title", group[0].FoldedTitle), slog.Int("commands", expired))
		l.answer(group[:expired], fmt.Errorf("%w: %w", ErrUnavailable, errLocked))
	}
	group = group[expired:]
	n := min(len(group), l.config.MaxBatch)
	if n > 0 {
		l.run(group[:n])
	}
	if len(group) > n {
		l.setApart(group[n:])
	}
}

// run executes a batch on the fast path or, if that fails, on the plain path.
func (l *lane) run(jobs []*job) {
	ctx, cancel := context.WithTimeout(context.Background(), l.config.Timeout)
	defer cancel()
	b := &batch{
		lane: l, jobs: jobs, permits: newPermits(l.config.Limiter, l.config.Logger, l.config.Timeout/2),
		lost: map[uuid.UUID]map[window]int{},
	}
	if !b.commitFast(ctx, jobs) {
		b.commitOrSplit(ctx, jobs)
	}
	b.permits.returnUnused()
}
