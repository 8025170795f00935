package bulk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"novelgate/commands/committer"
	"novelgate/internal/auth"
	"novelgate/internal/problem"
)

const (
	// window is the number of lines under way: a batch fills while another one executes.
	window = 512
	// maxUnavailable is the number of lines in a row that may fail because the service is overloaded or the database is
	// away. Then the rest of the request fails, too: each batch would wait for its time-out.
	maxUnavailable = 256
	// checkInterval is the time between checks of the caller. With the cache of package auth it is below a second.
	checkInterval = 100 * time.Millisecond
	// defaultPatience is less than the time that clients usually wait for the next bytes of an answer.
	defaultPatience = 10 * time.Second
)

// execution executes the lines of a request.
type execution struct {
	*API
	call      *auth.Call[*auth.Integration]
	requestID string
	report    func(*line, *committer.Result) // called with the outcome of each line, in any order

	checkedAt   time.Time     // the caller
	unavailable int           // lines in a row that were
	stopped     error         // why the remaining lines are not executed
	patience    time.Duration // see API.Patience
}

// inOrder returns the lines in the order of their execution: that of the request, except that a reply comes right after
// its parent, and a change right after its comment. In a circle of replies, the first of them does not wait.
func inOrder(lines []*line) []*line {
	comments, upserts := map[string]*line{}, map[string]*line{} // the first comment of a key, the last upsert of a title
	for _, l := range lines {
		if l.Post != nil && comments[l.Key] == nil {
			comments[l.Key] = l
		}
	}
	children := map[*line][]*line{} // that wait for their parent
	ordered, taken := make([]*line, 0, len(lines)), make([]bool, len(lines))
	var take func(l *line)
	take = func(l *line) {
		taken[l.index] = true
		ordered = append(ordered, l)
		for _, child := range children[l] {
			if !taken[child.index] {
				take(child)
			}
		}
	}
	for _, l := range lines {
		switch {
		case l.Novel != nil:
			l.before = upserts[l.Novel.FoldedTitle]
			upserts[l.Novel.FoldedTitle] = l
		case l.Post != nil && l.Post.ParentKey != nil:
			if parent := comments[*l.Post.ParentKey]; parent != l {
				l.before = parent
			}
		case l.Comment != "":
			l.before = comments[l.Comment]
		}
		if l.Novel == nil && l.before != nil && !taken[l.before.index] {
			children[l.before] = append(children[l.before], l)
		} else if !l.ended {
			take(l)
		}
	}
	for _, l := range lines {
		if l.ended || taken[l.index] {
			continue
		}
		// All others of its thread wait for a circle of replies.
		inCircle, seen := l, map[*line]bool{}
		for !seen[inCircle] {
			seen[inCircle] = true
			inCircle = inCircle.before
		}
		inCircle.before = nil
		take(inCircle)
	}
	return ordered
}

// run executes the lines of a request. It ends early when ctx ends.
func (e *execution) run(ctx context.Context, lines []*line) {
	e.patience = cmp.Or(e.Patience, defaultPatience)
	for _, l := range lines {
		if l.ended { // it is no command
			e.report(l, nil)
		}
	}
	for due := inOrder(lines); len(due) > 0 && ctx.Err() == nil; {
		due = e.pass(ctx, due)
	}
}

// pass executes lines in order, and returns the replies whose parent has failed meanwhile.
func (e *execution) pass(ctx context.Context, lines []*line) (orphans []*line) {
	type sent struct {
		*line
		command committer.Submitted
	}
	var underWay []sent
	for (len(lines) > 0 || len(underWay) > 0) && ctx.Err() == nil {
		if len(lines) > 0 && len(underWay) < window {
			next := lines[0]
			// The last upsert of a novel wins, so each one waits for the outcome of the one before.
			if next.Novel == nil || next.before == nil || next.before.ended {
				lines = lines[1:]
				var command committer.Submitted
				err := e.patiently(ctx, func(ctx context.Context) (err error) {
					command, err = e.submit(ctx, next)
					return err
				})
				if err == nil {
					underWay = append(underWay, sent{next, command})
				} else {
					e.end(ctx, next, nil, err)
				}
				continue
			}
		}
		oldest := underWay[0]
		underWay = underWay[1:]
		var result committer.Result
		err := e.patiently(ctx, func(ctx context.Context) (err error) {
			result, err = oldest.command.Wait(ctx)
			return err
		})
		if errors.Is(err, committer.ErrParentUnknown) {
			orphans = append(orphans, oldest.line)
		} else {
			e.end(ctx, oldest.line, &result, err)
		}
	}
	return orphans
}

// patiently waits for the committer, but not longer than patience. Then no further line is executed.
func (e *execution) patiently(ctx context.Context, do func(context.Context) error) error {
	patient, cancel := context.WithTimeout(ctx, e.patience)
	defer cancel()
	err := do(patient)
	if err != nil && patient.Err() != nil && ctx.Err() == nil {
		e.patience = 0
		if e.stopped == nil {
			e.stopped = committer.ErrUnavailable
		}
	}
	return err
}

// submit passes a line to the committer.
func (e *execution) submit(ctx context.Context, l *line) (none committer.Submitted, err error) {
	if e.stopped == nil && e.Draining() {
		e.stopped = committer.ErrClosed
	}
	if now := e.Now(); e.stopped == nil && now.Sub(e.checkedAt) >= checkInterval {
		e.checkedAt = now
		checking, cancel := e.WithTimeout(ctx)
		err := e.call.StillAllowed(checking)
		cancel()
		if _, refused := errors.AsType[*problem.Error](err); refused { // otherwise the database is away
			e.stopped = err
		}
	}
	if e.stopped != nil {
		return none, e.stopped
	}
	from := e.call.Caller
	if err := allowed(from, l.Operation); err != nil {
		return none, err
	}
	if l.before != nil && l.before.failed != nil && l.before.failed.Code.Retryable() {
		return none, l.before.failed.WithDetail(fmt.Sprintf(
			"Line %d comes first, and was not executed. Send both again.", l.before.number))
	}
	caller := committer.Caller{
		IntegrationID: from.IntegrationID, KeyID: from.KeyID, CanCreateNovels: from.CanCreateNovels,
		Review: from.Review, LinesPerMinute: from.LinesPerMinute, AuthorKey: from.AuthorKey,
		RequestID: e.requestIDOf(l),
	}
	var cmd *committer.Command
	// The outcome of the parent may be unknown, because both are under way. If the parent fails, the reply must not be
	// stored without it, and a change not be refused: the client may send both again.
	awaits := l.before != nil && !l.before.ended
	switch {
	case l.Novel != nil:
		cmd = committer.NewUpsertNovel(caller, l.Key, l.Novel)
	case l.Post != nil:
		cmd = committer.NewImportPost(caller, l.Key, l.Post)
		cmd.Comment.AwaitParent = awaits
	case l.Edit != nil:
		cmd = committer.NewEditPost(caller, l.Key, l.Comment, l.Edit)
		cmd.Change.AwaitComment = awaits
	default:
		cmd = committer.NewWithdrawPost(caller, l.Key, l.Comment)
		cmd.Change.AwaitComment = awaits
	}
	cmd.Bulk = true
	submitted, err := e.Committer.Submit(ctx, cmd)
	if err != nil && ctx.Err() != nil { // it has waited for its turn, in vain
		err = committer.ErrUnavailable
	}
	return submitted, err
}

// requestIDOf returns the request id of the event and of the problem of a line.
func (e *execution) requestIDOf(l *line) string { return fmt.Sprintf("%s/%d", e.requestID, l.number) }

// end reports the outcome of a line.
func (e *execution) end(ctx context.Context, l *line, result *committer.Result, err error) {
	l.ended = true
	if err != nil {
		l.failed = e.Problem(err)
		if l.failed.Code == problem.CodeInternal {
			e.Logger.ErrorContext(ctx, "a line of a bulk request failed", slog.String("requestId", e.requestIDOf(l)),
				slog.Any("error", err))
		}
	}
	if l.failed == nil || l.failed.Code != problem.CodeUnavailable {
		e.unavailable = 0
	} else if e.unavailable++; e.unavailable == maxUnavailable && e.stopped == nil {
		e.stopped = err
	}
	e.report(l, result)
	l.Novel, l.Post, l.Edit = nil, nil, nil
}
