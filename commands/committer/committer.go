package committer

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/commands/ratelimit"
	"novelgate/commands/share"
)

// Permits is the limiter of novel creations: a *ratelimit.Limiter.
type Permits interface {
	Take(ctx context.Context, integrationID uuid.UUID, operation ratelimit.Operation, limit, n int) (ratelimit.Decision,
		error)
	Return(ctx context.Context, integrationID uuid.UUID, operation ratelimit.Operation, taken ratelimit.Decision,
		n int) error
}

// Config of a Committer.
type Config struct {
	Pool    *pgxpool.Pool // sessions as internal/database makes them for appending; at least Lanes connections
	Permits Permits
	Logger  *slog.Logger
	Metrics *Metrics

	Lanes       int // batches in flight at a time; default: see DefaultLanes
	MaxBatch    int // commands in one transaction; default 256
	QueueLength int // commands that may wait in each lane; default 1024
	// commands of one integration in the lanes; default 256, so that those of others wait for one batch of them
	Share      int
	ShareQueue int           // commands of one integration that wait to enter a lane; default 1024
	Timeout    time.Duration // how long commands may keep trying once a lane has taken them up; default 1.5 s
	Committed  func()        // called after each commit that appended events; must not block
}

// DefaultLanes is one lane for every two processors, but two at least: one gathers while the other commits, and a
// batch that is held up does not hold up everything. More lanes only make the batches smaller.
func DefaultLanes() int { return max(2, runtime.NumCPU()/2) }

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

// Committer carries out commands in groups. Create it with New, end it with Close.
type Committer struct {
	config Config
	// connectionAttempts is how many consecutive connection failures count as a database that is down: after its
	// restart every connection of the pool is dead.
	connectionAttempts int

	shares *share.Shares // of the lanes
	lanes  []*lane
	seed   maphash.Seed
	wg     sync.WaitGroup

	connections atomic.Int64 // see connectionEpoch

	mu     sync.RWMutex // held for reading while a job enters a lane
	closed bool
}

// New returns a Committer whose lanes are running.
func New(config Config) *Committer {
	config.setDefaults()
	c := &Committer{
		config: config, connectionAttempts: int(config.Pool.Config().MaxConns) + 1,
		shares: share.New(config.Share, config.ShareQueue),
		lanes:  make([]*lane, config.Lanes), seed: maphash.MakeSeed(),
	}
	for i := range c.lanes {
		c.lanes[i] = c.newLane()
		c.wg.Go(c.lanes[i].serve)
	}
	return c
}

// UpsertNovel carries out cmd. It fails with novel.ErrRejected, *RateLimitedError, share.ErrExceeded or an error of
// this package. When ctx ends first, the command may still be carried out: ErrOutcomeUnknown.
func (c *Committer) UpsertNovel(ctx context.Context, cmd *UpsertNovel) (NovelResult, error) {
	j := cmd.job()
	if err := c.submit(ctx, j); err != nil {
		return NovelResult{}, err
	}
	return j.novelResult, j.err
}

// ImportPost carries out cmd. It fails with post.ErrNovelNotFound, *RateLimitedError, share.ErrExceeded or an error
// of this package. When ctx ends first, the command may still be carried out: ErrOutcomeUnknown.
func (c *Committer) ImportPost(ctx context.Context, cmd *ImportPost) (PostResult, error) {
	j := cmd.job()
	if err := c.submit(ctx, j); err != nil {
		return PostResult{}, err
	}
	return j.postResult, j.err
}

func (c *Committer) submit(ctx context.Context, j *job) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err()) // nothing was submitted
	}
	if err := c.shares.Take(ctx, j.caller.IntegrationID); err != nil {
		return err
	}
	if err := c.enqueue(j); err != nil {
		c.shares.Return(j.caller.IntegrationID)
		return err
	}
	select {
	case <-j.done:
		return nil
	case <-ctx.Done():
		return ErrOutcomeUnknown
	}
}

func (c *Committer) enqueue(j *job) error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.closed {
		return ErrClosed
	}
	lane := c.lanes[maphash.String(c.seed, j.folded)%uint64(len(c.lanes))]
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
