package commands

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"novelgate/commands/access"
	"novelgate/commands/problem"
	"novelgate/commands/request"
)

// handler serves an operation. The checks run in this order: key of the integration (401), media type (415), size
// (413), capability (403), idempotency key, and then, in the operation itself, body, limit, share, replay, decision.
func (a *API) handler(op operation) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		out, err := a.serve(w, r, op)
		if out != nil {
			setReplayed(w.Header(), out)
		}
		if err != nil {
			a.refuse(ctx, w, op, err)
			return
		}
		a.Metrics.command(op.name, out.outcome)
		a.render(ctx, w, out)
	})
}

// bodyGrace is how long a body may take to arrive before the time for the answer starts anew: a slow sender is not a
// slow service.
const bodyGrace = 50 * time.Millisecond

// disabledDetail refuses everything to a disabled integration.
const disabledDetail = "This integration is disabled."

// serve returns what to answer. With an error, the output only says whether that is a replay.
func (a *API) serve(w http.ResponseWriter, r *http.Request, op operation) (_ *output, err error) {
	ctx, cancel := context.WithTimeout(r.Context(), a.Timeout)
	defer cancel()
	in := &input{requestID: RequestID(ctx), traceParent: traceParent(r), receivedAt: a.Now()}
	if in.Principal, err = a.authenticate(ctx, r); err != nil {
		a.hold(ctx, uuid.Nil, err)
		return nil, err
	}
	defer func() { a.hold(ctx, in.IntegrationID, err) }()
	// At the end, when a permit that this request takes is counted.
	defer func() { setRateLimit(w.Header(), in.Principal, a.Limiter, op.limits...) }()

	if err := checkMediaType(r); err != nil {
		return nil, err
	}
	before := a.Now()
	if in.body, err = request.ReadBody(w, r, maxBody); err != nil {
		return nil, err
	}
	if a.Now().Sub(before) > bodyGrace {
		ctx, cancel = context.WithTimeout(r.Context(), a.Timeout-before.Sub(in.receivedAt))
		defer cancel()
	}
	if !in.Enabled {
		return nil, problem.CapabilityDisabled(disabledDetail)
	}
	if !op.allowed(in.Principal) {
		return nil, problem.CapabilityDisabled(op.missing)
	}
	if in.key, err = request.ParseIdempotencyKey(r.Header); err != nil {
		return nil, err // already a problem
	}
	return op.handle(ctx, in)
}

// hold keeps a refusal back if it is one of too many.
func (a *API) hold(ctx context.Context, integration uuid.UUID, err error) {
	if err != nil {
		a.guard.hold(ctx, integration, a.toProblem(err).Code)
	}
}

// authenticate finds out whose API key a request carries.
func (a *API) authenticate(ctx context.Context, r *http.Request) (*access.Principal, error) {
	key, err := request.Bearer(r.Header, "API key")
	if err != nil {
		return nil, err // already a problem
	}
	principal, err := a.Keys.Authenticate(ctx, key)
	switch {
	case err == nil:
		return principal, nil
	case errors.Is(err, access.ErrMalformed), errors.Is(err, access.ErrUnknown):
		return nil, problem.Unauthorized("The API key is not valid.")
	case errors.Is(err, access.ErrExpired):
		return nil, problem.Unauthorized("The API key has expired.")
	default:
		return nil, databaseProblem(err)
	}
}

// checkMediaType accepts application/json with any parameters.
func checkMediaType(r *http.Request) error {
	got := r.Header.Get("Content-Type")
	if got == "application/json" { // nearly always
		return nil
	}
	mediaType, _, err := mime.ParseMediaType(got)
	if err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter) || mediaType != "application/json" {
		return problem.UnsupportedMediaType(got)
	}
	return nil
}

// refuse answers with an error, and logs those that are ours.
func (a *API) refuse(ctx context.Context, w http.ResponseWriter, op operation, err error) {
	p := a.toProblem(err)
	a.Metrics.command(op.name, string(p.Code))
	NoteError(ctx, p.Code)
	switch p.Code {
	case problem.CodeInternal:
		a.Logger.ErrorContext(ctx, "command failed", slog.String("operation", string(op.name)),
			slog.String("requestId", RequestID(ctx)), slog.Any("error", err))
	case problem.CodeUnavailable: // one line for each request of an outage is too much for a higher level
		a.Logger.DebugContext(ctx, "command not taken", slog.String("operation", string(op.name)),
			slog.String("requestId", RequestID(ctx)), slog.Any("error", p))
	default: // the client's affair
	}
	problem.Write(w, RequestID(ctx), p)
}

// setReplayed says that an answer is that of an earlier delivery.
func setReplayed(h http.Header, out *output) {
	if out.replayed {
		h.Set("Idempotent-Replayed", "true")
	}
	if out.mismatch {
		h.Set("Idempotency-Mismatch", "true")
	}
}

func (a *API) render(ctx context.Context, w http.ResponseWriter, out *output) {
	encoded, err := json.Marshal(out.body)
	if err != nil {
		problem.Write(w, RequestID(ctx), fmt.Errorf("encode answer: %w", err))
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	if out.status == http.StatusCreated {
		h.Set("Location", out.location)
	}
	w.WriteHeader(out.status)
	_, _ = w.Write(encoded) //nolint:gosec // JSON, sent as JSON; a failing connection is the client's affair
}
