package main

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"runtime/debug"
	"time"

	"github.com/gorilla/mux"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"novelgate/commands"
	"novelgate/commands/admin"
	"novelgate/commands/problem"
	"novelgate/projections"
	"novelgate/readapi"
	"novelgate/readapi/answer"
	"novelgate/readapi/audit"
	"novelgate/readapi/pages"
	"novelgate/readapi/reading"
)

// publicHandler serves partners, staff, auditors and readers.
func (s *service) publicHandler(
	api *commands.API, staffAPI *admin.API, auditAPI *audit.API, metrics *commands.Metrics, timeout time.Duration,
) http.Handler {
	// Without cleaning: a path is what it says, and a POST is never redirected.
	router := mux.NewRouter().SkipClean(true)
	router.Use(metrics.Middleware, s.recoverPanics)
	api.Register(router)
	staffAPI.Register(router)
	auditAPI.Register(router)
	s.health().Register(router)
	readapi.RegisterOpenAPI(router, s.readers, commands.Refuse)
	missing := s.registerReaders(router, timeout)
	s.ledgerAPI(timeout).Register(router)
	router.NotFoundHandler = metrics.Middleware(missing)
	router.MethodNotAllowedHandler = metrics.Middleware(commands.MethodNotAllowed(router))
	return s.sayGoodbye(commands.WithRequestID(router))
}

// registerReaders adds what readers see, as JSON and as pages. It returns what answers for addresses that no route has.
func (s *service) registerReaders(router *mux.Router, timeout time.Duration) (missing http.Handler) {
	reader, addresses := &reading.Reader{DB: s.db.pools.Read}, answer.NewAddresses(s.publicURL)
	api := &readapi.API{
		Reader: reader, Addresses: addresses, Logger: s.logger, Timeout: timeout, Refuse: commands.Refuse, Readers: s.readers,
	}
	api.Register(router)
	p := &pages.Pages{
		Reader: reader, Addresses: addresses, Logger: s.logger, Timeout: timeout,
		Missing: http.HandlerFunc(commands.NotFound), Readers: s.readers,
		Refused: func(r *http.Request, refused *problem.Error) string {
			commands.NoteError(r.Context(), refused.Code)
			return commands.RequestID(r.Context())
		},
	}
	p.Register(router)
	return p.NotFound()
}

// opsHandler serves operators.
func (s *service) opsHandler(registry *prometheus.Registry) http.Handler {
	router := mux.NewRouter()
	health := s.health()
	health.Projections = func(ctx context.Context) (any, error) { return projections.List(ctx, s.db.pools.General) }
	health.Register(router)
	router.Handle("/metrics",
		promhttp.HandlerFor(registry, promhttp.HandlerOpts{Registry: registry, EnableOpenMetrics: true}))
	router.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	router.HandleFunc("/debug/pprof/profile", pprof.Profile)
	router.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	router.HandleFunc("/debug/pprof/trace", pprof.Trace)
	router.PathPrefix("/debug/pprof/").HandlerFunc(pprof.Index)
	return router
}

func (s *service) health() *readapi.Health {
	return &readapi.Health{Probe: s.db.pools.Probe, Draining: s.draining.Load}
}

// recoverPanics answers a request whose handler panicked, and keeps the stack for us.
func (s *service) recoverPanics(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { //nolint:contextcheck // the request has it
			cause := recover()
			if cause == http.ErrAbortHandler { //nolint:errorlint // it is panicked with as it is
				panic(cause)
			}
			if cause != nil {
				s.logger.ErrorContext(r.Context(), "a handler panicked", slog.String("requestId", commands.RequestID(r.Context())),
					slog.Any("cause", cause), slog.String("stack", string(debug.Stack())))
				commands.Refuse(w, r, problem.Internal(nil))
			}
		}()
		next.ServeHTTP(w, r)
	})
}
