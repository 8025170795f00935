package commands

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/google/uuid"
	"github.com/gorilla/mux"

	"novelgate/commands/access"
	"novelgate/commands/problem"
	"novelgate/commands/request"
	"novelgate/events/eventlog"
)

// registerSelfRoutes adds what partners find out by themselves. Nothing here stores anything or counts against a limit
// of commands.
func (a *API) registerSelfRoutes(router *mux.Router) {
	router.Handle("/api/integrations/me", a.selfHandler(0, a.me)).Methods(http.MethodGet)
	router.Handle("/api/integrations/deliveries/reconcile", a.selfHandler(maxReconcileBody, a.reconcile)).Methods(
		http.MethodPost)
	// A key may hold slashes.
	router.Handle("/api/integrations/deliveries/{idempotencyKey:(?s:.*)}", a.selfHandler(0, a.delivery)).Methods(
		http.MethodGet)
	router.Handle("/api/integrations/resolve", a.selfHandler(maxBody, a.resolve)).Methods(http.MethodPost)
}

// inquiry is an authenticated question of a partner.
type inquiry struct {
	*access.Principal
	request *http.Request
	body    []byte // nil on a route without one
}

// selfHandler answers with what answer returns, as JSON. A body is read, of up to maxBody bytes, when that is not 0.
// The checks run in this order: key of the integration (401), its share (429), media type (415), size (413), whether it
// is disabled (403), and then what answer checks. Its share comes first because a body here may be large, and nothing
// is stored that a retry could miss.
func (a *API) selfHandler(maxBody int64, answer func(ctx context.Context, in *inquiry) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := a.answerSelf(w, r, maxBody, answer)
		if err != nil {
			a.refuseSelf(w, r, err)
			return
		}
		w.Header().Set("Cache-Control", "no-store") // it is about one partner, and of this moment
		a.render(r.Context(), w, &output{status: http.StatusOK, body: body})
	})
}

func (a *API) answerSelf(
	w http.ResponseWriter, r *http.Request, maxBody int64, answer func(context.Context, *inquiry) (any, error),
) (_ any, err error) {
	ctx, cancel := context.WithTimeout(r.Context(), a.Timeout)
	defer cancel()
	received := a.Now()
	in := &inquiry{request: r}
	if in.Principal, err = a.authenticate(ctx, r); err != nil {
		a.hold(ctx, uuid.Nil, err)
		return nil, err
	}
	defer func() { a.hold(ctx, in.IntegrationID, err) }()
	err = a.guard.enter(ctx, in.IntegrationID)
	a.setQueryLimits(w.Header(), in.Principal)
	if err != nil {
		return nil, err
	}
	defer a.guard.turns.Return(in.IntegrationID)

	if maxBody > 0 {
		if err := checkMediaType(r); err != nil {
			return nil, err
		}
		before := a.Now()
		if in.body, err = request.ReadBody(w, r, maxBody); err != nil {
			return nil, err
		}
		if a.Now().Sub(before) > bodyGrace {
			ctx, cancel = context.WithTimeout(r.Context(), a.Timeout-before.Sub(received))
			defer cancel()
		}
	}
	if !in.Enabled {
		return nil, problem.CapabilityDisabled(disabledDetail)
	}
	return answer(ctx, in)
}

// refuseSelf answers an inquiry with an error, and logs a defect.
func (a *API) refuseSelf(w http.ResponseWriter, r *http.Request, err error) {
	p := a.toProblem(err)
	if p.Code == problem.CodeInternal {
		a.Logger.ErrorContext(r.Context(), "inquiry failed", slog.String("path", r.URL.Path),
			slog.String("requestId", RequestID(r.Context())), slog.Any("error", err))
	}
	Refuse(w, r, p)
}

// readProblem tells a database that is away from a failure that should not happen.
func readProblem(err error) error {
	if !eventlog.IsAway(err) {
		return err
	}
	return problem.Unavailable(retryUnavailable).WithDetail(
		"The service cannot answer now. Repeat the request after the time in Retry-After.").WithCause(err)
}
