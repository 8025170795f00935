package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"time"
)

// Line is a command of a bulk request.
type Line struct {
	Operation Operation `json:"operation"`
	Key       string    `json:"idempotencyKey"`
	// Post is the key of the comment that OperationEdits and OperationWithdrawals change.
	Post string `json:"post,omitempty"`
	Body any    `json:"body"` // a Novel, a Post or an Edit, or their JSON as a json.RawMessage; nil for a withdrawal
}

// Outcome is what the service did with a line: an error, or the members of the answer to a single command.
type Outcome struct {
	Index int    `json:"-"`       // of the line in the sequence, from 0
	Err   *Error `json:"problem"` // nil if the service accepted the line

	Created   bool `json:"created"`
	Updated   bool `json:"updated"`   // see UpsertedNovel
	Canonical bool `json:"canonical"` // see UpsertedNovel
	Applied   bool `json:"applied"`   // of a change: see ChangedPost
	Replayed  bool `json:"replayed"`  // the key was used before, maybe by an earlier attempt of Bulk
	Mismatch  bool `json:"mismatch"`  // … for another command, which stays in effect: this one was not executed

	NovelID      string  `json:"novelId"`
	Slug         string  `json:"slug"`
	PostID       string  `json:"postId"`
	ThreadID     string  `json:"threadId"`
	ParentPostID *string `json:"parentPostId"` // nil for a top-level comment
	URL          string  `json:"url"`

	Warnings []Warning `json:"warnings"`
}

// The limits of a bulk request.
const (
	maxLines     = 10_000
	maxLineBytes = 16 << 20 // of all lines
)

// Bulk executes any number of commands, thousands in a request, and yields the final outcome of each. It needs the
// capability of bulk import. Each line is a command of its own: it can fail while others succeed. Bulk sends lines
// again whose outcome did not arrive, and those that the service refused for a while, after the pause that it asks for.
// So outcomes come in the order of lines, except for lines that were refused for a while.
//
// Put upserts before comments on their novels, and comments before their replies, edits and withdrawals. The service
// does that only within a request. Bulk begins a request when all lines of the one before have their outcomes.
//
// The last element may be an error instead of an outcome: ctx is done, or the service refuses the whole request, for
// instance because the API key is wrong. Then call Bulk again with all lines: those that were executed are replays.
func (c *Client) Bulk(ctx context.Context, lines iter.Seq[Line]) iter.Seq2[Outcome, error] {
	return func(yield func(Outcome, error) bool) {
		b := bulk{sender: c.sender, yield: yield}
		size, count := 0, 0
		for line := range lines {
			text, err := encode(line)
			if err == nil && len(b.lines) > 0 && (len(b.lines) == maxLines || size+len(text) > maxLineBytes) {
				err, size = b.execute(ctx), 0
			}
			if err != nil {
				b.end(err)
				return
			}
			b.lines, size = append(b.lines, sentLine{count, text}), size+len(text)
			count++
		}
		if len(b.lines) > 0 {
			b.end(b.execute(ctx))
		}
	}
}

// bulk is a bulk request.
type bulk struct {
	sender *sender
	yield  func(Outcome, error) bool
	lines  []sentLine // without a final outcome
}

type sentLine struct {
	index int
	text  []byte
}

// errStopped means that the consumer of the outcomes wants no more.
var errStopped = fmt.Errorf("%w: stopped", errAnswer)

func (b *bulk) end(err error) {
	if err != nil && !errors.Is(err, errStopped) {
		b.yield(Outcome{}, err)
	}
}

// execute sends lines until all have a final outcome.
func (b *bulk) execute(ctx context.Context) error {
	return b.sender.retry(ctx, func() (bool, error) {
		before := len(b.lines)
		err := b.attempt(ctx)
		return len(b.lines) < before, err
	})
}

// attempt sends the lines once, and keeps those that have no final outcome then.
func (b *bulk) attempt(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	alive := &heartbeat{timer: time.AfterFunc(b.sender.timeout, cancel), timeout: b.sender.timeout}
	defer alive.timer.Stop()
	var body []byte
	for _, line := range b.lines {
		body = append(body, line.text...)
	}
	response, err := b.sender.do(ctx, request{
		method: http.MethodPost, path: "/api/integrations/bulk", mediaType: "application/x-ndjson",
	}, alive.of(bytes.NewReader(body)), len(body))
	if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // it is only read

	var refused *Error // for a while; of all such lines the one that waits longest
	var remaining []sentLine
	outcomes, answered := json.NewDecoder(alive.of(response.Body)), 0
	defer func() { b.lines = append(remaining, b.lines[answered:]...) }()
	for answered < len(b.lines) {
		var outcome struct {
			Line int `json:"line"`
			Outcome
			RetryAfter int64 `json:"retryAfter"`
		}
		err := outcomes.Decode(&outcome)
		_, isSyntax := errors.AsType[*json.SyntaxError](err)
		_, isType := errors.AsType[*json.UnmarshalTypeError](err)
		switch {
		case isSyntax, isType:
			return fmt.Errorf("%w: %w", errAnswer, err)
		case errors.Is(err, io.EOF): // as when the service was stopped
			return fmt.Errorf("read outcomes: %w", io.ErrUnexpectedEOF)
		case err != nil:
			return fmt.Errorf("read outcomes: %w", err)
		case outcome.Line != answered+1:
			return fmt.Errorf("%w: the outcome of line %d comes after that of line %d", errAnswer, outcome.Line, answered)
		}
		line := b.lines[answered]
		answered++
		if outcome.Err != nil && outcome.Err.Retryable {
			remaining = append(remaining, line)
			outcome.Err.retryAfter = pauseOf(outcome.RetryAfter)
			if refused == nil || refused.retryAfter < outcome.Err.retryAfter {
				refused = outcome.Err
			}
			continue
		}
		outcome.Index = line.index
		if !b.yield(outcome.Outcome, nil) {
			return errStopped
		}
	}
	if refused != nil {
		return refused
	}
	return nil
}

// heartbeat starts its timer again whenever data passes.
type heartbeat struct {
	timer   *time.Timer
	timeout time.Duration
}

func (h *heartbeat) of(r io.Reader) io.Reader { return io.TeeReader(r, h) }

// Write gets the data that passed.
func (h *heartbeat) Write(p []byte) (int, error) {
	h.timer.Reset(h.timeout)
	return len(p), nil
}
