package committer

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"time"

	"github.com/google/uuid"
)

// lockPause is how long a lane without other work waits before it tries commands on a locked title again.
const lockPause = 20 * time.Millisecond

// plainBatches is how many batches take the plain path after a retried comment. Partners retry in bursts, after an
// outage, and on the fast path each batch with a retry fails first: with one retry in ten commands at 64 connections,
// that took 1.7 times the processor time. See docs/decisions/0013-fast-path.md.
const plainBatches = 64

// lane carries out the commands on its titles, one batch at a time.
type lane struct {
	*Committer
	queue  chan *job
	cache  *titleCache
	plain  int      // batches that take the plain path, see plainBatches
	locked [][]*job // commands that were set apart because their title is locked, by job.lockGroup
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

// gather waits for a command, or until it is time to retry locked ones, and returns what the queue holds by then. It
// is false when the queue is closed and empty.
func (l *lane) gather(jobs []*job) (_ []*job, open bool) {
	var pause <-chan time.Time
	if len(l.locked) > 0 {
		pause = time.After(lockPause)
	}
	select {
	case first, ok := <-l.queue:
		if !ok {
			if pause != nil {
				<-pause
			}
			return nil, false
		}
		deadline := time.Now().Add(l.config.Timeout) //nolint:forbidigo // how long the commands may wait for a lock
		jobs = l.take(jobs, first, deadline)
		// Requests that are about to submit do so first. When there are none, this returns at once.
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
	case <-pause:
	}
	return jobs, true
}

// take adds a command to a batch, or to those that wait for the same lock, so that they keep their order.
func (l *lane) take(jobs []*job, j *job, deadline time.Time) []*job {
	if j.deadline = deadline; l.addToLocked(j) {
		return jobs
	}
	return append(jobs, j)
}

// setApart keeps a group of commands on a locked title for later.
func (l *lane) setApart(jobs []*job) {
	if !l.addToLocked(jobs...) {
		l.locked = append(l.locked, slices.Clone(jobs)) // the lane reuses its batch
	}
}

// addToLocked adds commands of one group to those of it that were set apart, if there are any.
func (l *lane) addToLocked(jobs ...*job) bool {
	for i, group := range l.locked {
		if group[0].lockGroup() == jobs[0].lockGroup() {
			l.locked[i] = append(group, jobs...)
			return true
		}
	}
	return false
}

// retryLocked tries one group of locked commands again, which sets them apart again if the lock is still held, and
// refuses those whose time is up. The lane is held up for one lock_timeout.
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
		l.config.Logger.WarnContext(context.Background(), "commands not carried out: another session locks their title",
			slog.String("title", group[0].folded), slog.Int("commands", expired))
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

// run carries out a batch: on the fast path, or else on the plain one.
func (l *lane) run(jobs []*job) {
	ctx, cancel := context.WithTimeout(context.Background(), l.config.Timeout)
	defer cancel()
	b := &batch{
		lane: l, jobs: jobs, permits: newPermits(l.config.Permits, l.config.Logger, l.config.Timeout/2),
		lost: map[uuid.UUID]map[window]int{},
	}
	if !b.commitFast(ctx, jobs) {
		b.settle(ctx, jobs)
	}
	b.permits.returnUnused()
}
