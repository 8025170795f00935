package committer

import (
	"context"
	"runtime"

	"novelgate/commands/ratelimit"
)

// queue is the commands that wait for a batch. An integration has a limited share of it.
type queue struct {
	jobs   chan *job
	shares *ratelimit.Shares
}

func newQueue(length, share, waiting int) *queue {
	return &queue{jobs: make(chan *job, length), shares: ratelimit.NewShares(share, waiting)}
}

// enqueue adds a job to its queue. A line of a bulk request waits for room, a live command does not.
func (c *Committer) enqueue(ctx context.Context, j *job) error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.closed {
		return ErrClosed
	}
	select {
	case j.queue.jobs <- j:
		return nil
	default:
	}
	if !j.Bulk {
		return ErrQueueFull
	}
	select {
	case j.queue.jobs <- j: // Close waits for the lock that is held here, and batches go on meanwhile
		return nil
	case <-ctx.Done():
		return ErrQueueFull
	}
}

// leastRoom is the number of lines of bulk requests that a batch may have beside live commands.
const leastRoom = 4

// gather returns the next batch: all live commands that wait, then lines of bulk requests. It waits for the first one.
// The batch is empty when both queues are closed and empty.
//
// Live commands that arrive during a batch wait for its end. So the room for lines falls to leastRoom with each live
// command, and grows by as much with each batch that has none.
func (c *Committer) gather(jobs []*job) []*job {
	if len(c.live.jobs) == 0 {
		first, ok := c.first()
		if !ok {
			return nil
		}
		jobs = append(jobs, first)
	}
	// Let requests that are about to submit do so first.
	runtime.Gosched()
	jobs = c.live.drain(jobs, c.config.MaxBatch)
	c.bulkRoom = min(c.bulkRoom+leastRoom, c.config.MaxBatch)
	for _, j := range jobs {
		if !j.Bulk {
			c.bulkRoom = leastRoom
			break
		}
	}
	if len(c.live.jobs) > 0 {
		return jobs // full
	}
	return c.bulk.drain(jobs, min(len(jobs)+c.bulkRoom, c.config.MaxBatch))
}

// first waits for a command of either queue. It returns false when both are closed and empty.
func (c *Committer) first() (*job, bool) {
	select {
	case j, ok := <-c.live.jobs:
		if ok {
			return j, true
		}
		j, ok = <-c.bulk.jobs
		return j, ok
	case j, ok := <-c.bulk.jobs:
		if ok {
			return j, true
		}
		j, ok = <-c.live.jobs
		return j, ok
	}
}

// drain adds jobs that wait, until there are most.
func (q *queue) drain(jobs []*job, most int) []*job {
	for len(jobs) < most {
		select {
		case next, ok := <-q.jobs:
			if !ok {
				return jobs
			}
			jobs = append(jobs, next)
		default:
			return jobs
		}
	}
	return jobs
}
