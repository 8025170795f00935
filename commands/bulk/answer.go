package bulk

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"novelgate/aggregates/novel"
	"novelgate/commands"
	"novelgate/commands/committer"
	"novelgate/commands/ratelimit"
	"novelgate/internal/auth"
	"novelgate/internal/web"
)

// The answer has one line for each line of the request that is not blank, in their order: a head, the members of the
// answer of the live interface or a problem, and a tail.
type (
	head struct {
		Line           int                 `json:"line"`
		Operation      ratelimit.Operation `json:"operation,omitzero"`
		IdempotencyKey string              `json:"idempotencyKey,omitzero"`
		Status         int                 `json:"status"` // that the live interface would have
	}
	refusal struct {
		Problem    jsontext.Value `json:"problem"`
		RetryAfter int            `json:"retryAfter,omitzero"` // in seconds
	}
	tail struct {
		Replayed bool `json:"replayed,omitzero"`
		Mismatch bool `json:"mismatch,omitzero"`
	}
)

// answerOf returns the line of the answer for the outcome of a line, and the outcome for the metric.
func (a *API) answerOf(l *line, result *committer.Result, requestID string) (answer any, outcome string) {
	h := head{Line: l.number, Operation: l.Operation, IdempotencyKey: l.Key, Status: http.StatusOK}
	if p := l.failed; p != nil {
		h.Status = p.Code.Status()
		r := refusal{Problem: p.JSON(requestID)}
		if p.Code.Retryable() {
			r.RetryAfter = max(1, int((p.RetryAfter+time.Second-1)/time.Second))
		}
		return struct {
			head
			refusal
		}{h, r}, string(p.Code)
	}
	t := tail{Replayed: result.Replayed, Mismatch: result.Mismatch}
	if l.Comment != "" {
		var unknown []string
		if l.Edit != nil {
			unknown = l.Edit.Unknown
		}
		return struct {
			head
			commands.ChangeAnswer
			tail
		}{h, commands.NewChangeAnswer(a.Addresses, unknown, result), t}, commands.Outcome(l.Operation, result)
	}
	isCreated := !result.Replayed && (l.Post != nil || result.Outcome == novel.Created)
	switch {
	case result.Replayed:
		outcome = "replayed"
	case isCreated:
		outcome, h.Status = "created", http.StatusCreated
	case result.Outcome == novel.Updated:
		outcome = "updated"
	default:
		outcome = "unchanged"
	}
	if l.Post != nil {
		return struct {
			head
			commands.PostAnswer
			tail
		}{h, commands.NewPostAnswer(a.Addresses, l.Post, result), t}, outcome
	}
	return struct {
		head
		commands.NovelAnswer
		tail
	}{h, commands.NewNovelAnswer(a.Addresses, l.Novel, result), t}, outcome
}

// respond executes lines, and sends their outcomes in the order of the request while they arrive. A client that
// disconnects ends the execution.
func (a *API) respond(c *auth.Call[*auth.Integration], lines []*line) error {
	r := c.Request
	// A client may close its side of the connection after the request, which cancels the context, and still read.
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	defer cancel()
	type answer struct {
		index int
		text  []byte
	}
	answers := make(chan answer, len(lines)) // a client that reads slowly does not hold up the execution
	e := &execution{API: a, call: c, checkedAt: a.Now(), requestID: web.RequestID(r.Context())}
	e.report = func(l *line, result *committer.Result) {
		value, outcome := a.answerOf(l, result, e.requestIDOf(l))
		// Details may have invalid UTF-8, which becomes U+FFFD, so this cannot fail.
		text, _ := json.Marshal(value, jsontext.AllowInvalidUTF8(true))
		a.Outcomes.WithLabelValues(outcome).Inc()
		if l.failed != nil {
			a.LogRefusal(ctx, web.Refusal{
				RequestID: e.requestIDOf(l), Integration: c.Caller.IntegrationID,
				Operation: cmp.Or(string(l.Operation), bulk), Problem: l.failed, Key: auth.Redact(l.Key),
			})
		}
		answers <- answer{l.index, text}
	}
	go func() {
		defer close(answers)
		e.run(ctx, lines)
	}()

	stream := &web.Lines{Kit: a.Kit, Writer: c.Writer, Request: r, CheckKey: func() error { return nil }}
	return stream.Run(ctx, func(context.Context) error {
		defer func() {
			cancel()
			for range answers { // until the execution has ended
			}
		}()
		texts := make([][]byte, len(lines))
		sent, ready := 0, 0
		send := func() error {
			err := stream.Write(ready-sent, func(buffer []byte, i int) ([]byte, error) {
				return append(buffer, texts[sent+i]...), nil
			})
			clear(texts[sent:ready])
			sent = ready
			return err
		}
		if err := stream.KeepAlive(); err != nil { // the header
			return err
		}
		for {
			if len(answers) == 0 { // the batch is complete
				if err := send(); err != nil {
					return err
				}
			}
			next, more := <-answers
			if !more {
				return send()
			}
			texts[next.index] = next.text
			for ready < len(texts) && texts[ready] != nil {
				ready++
			}
		}
	})
}
