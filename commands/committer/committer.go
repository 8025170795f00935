package committer

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"novelgate/commands/ratelimit"
	"novelgate/events/eventlog"
	"novelgate/internal/tracing"
)

// Config of a Committer.
type Config struct {
	Pool    *pgxpool.Pool // the Append pool of internal/database
	Limiter *ratelimit.Limiter
	// Breaker ends a stopped holder of the lock of the log. It needs another pool: Pool has no connection to spare.
	Breaker *eventlog.Breaker
	Logger  *slog.Logger
	Metrics *Metrics
	Tracer  trace.Tracer // starts a span for each batch, which links those of its commands; nil: none

	MaxBatch    int // commands in one transaction; default 256
	QueueLength int // commands that may wait; default 1024
	// Share limits the commands of one integration in the queue; default 256: the commands of other integrations then wait
	// for at most one batch of this integration.
	Share      int
	ShareQueue int           // commands of one integration that wait to enter the queue; default 1024
	Timeout    time.Duration // limit for the attempts at a command; default 1.5 s
	Committed  func()        // called after each commit that appended events; must not block
}

func (c *Config) setDefaults() {
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
	// connectionAttempts is the number of connection failures of a batch before the database counts as down: one more
	// than the connections of the pool, because a restart of the database breaks all of them.
	connectionAttempts int

	cache     *cache
	plainLeft int // next batches that do not try the fast path: see plainBatches
	live      *queue
	bulk      *queue
	bulkRoom  int // lines that the next batch may take: see gather
	running   sync.WaitGroup

	mu     sync.RWMutex // held for reading while a job enters the queue
	closed bool
}

// New returns a running Committer.
func New(config Config) *Committer {
	config.setDefaults()
	c := &Committer{
		config: config, connectionAttempts: int(config.Pool.Config().MaxConns) + 1,
		cache: newCache(), bulkRoom: leastRoom,
		live: newQueue(config.QueueLength, config.Share, config.ShareQueue),
		bulk: newQueue(config.QueueLength, config.Share, config.ShareQueue),
	}
	c.running.Go(c.serve)
	return c
}

// Execute executes a command. It fails with *RateLimitedError, ratelimit.ErrShareExceeded, an error of this package, or
// any error if the command cannot be decided or stored; an upsert also with novel.ErrRejected, a comment with
// post.ErrNovelNotFound or author.ErrBlocked. When ctx ends after the command has joined the queue, it fails with
// ErrOutcomeUnknown, because the command may still be executed.
func (c *Committer) Execute(ctx context.Context, cmd *Command) (Result, error) {
	submitted, err := c.Submit(ctx, cmd)
	if err != nil {
		return Result{}, err
	}
	return submitted.Wait(ctx)
}

// Submit passes a command to its queue. It waits until the share of the integration allows this, and with a line of a
// bulk request until the queue has room. If one call returns before the next one begins, commands of one queue execute
// in this order. If Submit fails, the command is not executed; the errors are those of Execute.
func (c *Committer) Submit(ctx context.Context, cmd *Command) (Submitted, error) {
	if ctx.Err() != nil {
		return Submitted{}, fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
	}
	if err := c.refuse(cmd); err != nil {
		return Submitted{}, err
	}
	q := c.live
	if cmd.Bulk {
		q = c.bulk
	}
	if err := q.shares.Take(ctx, cmd.Caller.IntegrationID); err != nil {
		return Submitted{}, err
	}
	j := newJob(cmd, q)
	if c.config.Tracer != nil {
		j.span = trace.SpanContextFromContext(ctx)
	}
	if err := c.enqueue(ctx, j); err != nil {
		q.shares.Return(cmd.Caller.IntegrationID)
		return Submitted{}, err
	}
	return Submitted{j}, nil
}

// refuse refuses a command beyond the limit of its integration without a transaction, if that is known.
func (c *Committer) refuse(cmd *Command) error {
	k, limit, ok := cmd.limited(cmd.request())
	if !ok {
		return nil
	}
	if retryAfter, refused := c.config.Limiter.Refused(k, limit); refused {
		return &RateLimitedError{Operation: k.Operation, Limit: limit, RetryAfter: retryAfter}
	}
	return nil
}

// Submitted is a command that Submit has passed to the queue.
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

// QueueDepth returns how many live commands wait.
func (c *Committer) QueueDepth() int { return len(c.live.jobs) }

// Close refuses further commands and returns when all accepted ones are answered.
func (c *Committer) Close() {
	c.mu.Lock()
	if !c.closed {
		c.closed = true
		close(c.live.jobs)
		close(c.bulk.jobs)
	}
	c.mu.Unlock()
	c.running.Wait()
}

// serve executes batches until both queues are closed and all commands are answered.
func (c *Committer) serve() {
	buffer := make([]*job, 0, c.config.MaxBatch)
	for {
		jobs := c.gather(buffer)
		if len(jobs) == 0 {
			return
		}
		c.config.Metrics.batchSize.Observe(float64(len(jobs)))
		c.run(jobs)
	}
}

// run executes a batch.
func (c *Committer) run(jobs []*job) {
	ctx, cancel := context.WithTimeout(context.Background(), c.config.Timeout)
	defer cancel()
	if c.config.Tracer != nil {
		var span trace.Span
		ctx, span = startSpan(ctx, c.config.Tracer, jobs)
		defer span.End()
	}
	b := &batch{Committer: c, lost: map[uuid.UUID]map[deliveryKey]*job{}}
	if !b.commitFast(ctx, jobs) {
		b.commitOrSplit(ctx, jobs)
	}
}

// startSpan starts the span of a batch.
func startSpan(ctx context.Context, tracer trace.Tracer, jobs []*job) (context.Context, trace.Span) {
	requests := make([]trace.SpanContext, len(jobs))
	for i, j := range jobs {
		requests[i] = j.span
	}
	return tracing.StartBatch(ctx, tracer, "commit batch", requests, attribute.Int("novelgate.commands", len(jobs)))
}

// answer completes jobs with the decided result, or with err. Only then does it return the share of the integration: a
// command uses its share even if its submitter no longer waits.
func (c *Committer) answer(jobs []*job, err error) {
	for _, j := range jobs {
		if err != nil {
			j.result, j.err = Result{}, err
		}
		close(j.done)
		j.queue.shares.Return(j.Caller.IntegrationID)
	}
}
