package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/google/uuid"
	"github.com/gorilla/mux"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"novelgate/commands"
	"novelgate/commands/admin"
	"novelgate/commands/bulk"
	"novelgate/commands/imports"
	"novelgate/commands/webhooks"
	"novelgate/events/ledger"
	"novelgate/internal/database"
	"novelgate/internal/httpkit"
	"novelgate/internal/problem"
	"novelgate/projections"
	"novelgate/readapi"
	"novelgate/readapi/changes"
	"novelgate/readapi/history"
	"novelgate/readapi/pages"
)

// Limits of concurrency. An open stream may use half a megabyte.
const (
	staffRequests  = 64  // requests of staff and auditors in progress
	staffAnswers   = 4   // of these, answers that are computed at the same time
	auditorStreams = 100 // open streams of the event history
	partnerStreams = 100 // open streams of change feeds
	cardRequests   = 16  // requests for cards, the pictures of link previews
	cardsDrawn     = 1   // of these, cards that are drawn at the same time
	coverRequests  = 64  // requests for covers
)

// newKit returns the Kit of all public routes.
func (s *service) newKit(c *serveCommand) *httpkit.Kit {
	readers := httpkit.NewReadLimit("public", c.Readers, 0, c.RequestTimeout)
	staff := httpkit.NewReadLimit("staff", staffRequests, staffAnswers, c.RequestTimeout)
	s.collectors = append(s.collectors, readers, staff)
	return &httpkit.Kit{
		Logger: s.logger, Timeout: c.RequestTimeout, Now: s.now,
		Readers: readers, StaffReaders: staff,
		Problems: []func(error) *problem.Error{
			commands.Problem, admin.Problem, readapi.Problem, history.Problem,
		},
	}
}

// publicHandler returns the handler of all routes for partners, staff, auditors and readers. It sets s.partners.
func (s *service) publicHandler(site pages.Site, kit *httpkit.Kit) http.Handler {
	pools := s.db.pools
	addresses := httpkit.NewAddresses(s.publicURL)
	requests, outcomes, lines := httpkit.NewMetrics(), commands.NewOutcomes(), bulk.NewOutcomes()
	historyStreams := httpkit.NewReadLimit("streams", auditorStreams, 0, kit.Timeout)
	changeStreams := httpkit.NewReadLimit("partnerStreams", partnerStreams, 0, kit.Timeout)
	cards := httpkit.NewReadLimit("cards", cardRequests, cardsDrawn, kit.Timeout)
	covers := httpkit.NewReadLimit("covers", coverRequests, 0, kit.Timeout)
	s.collectors = append(s.collectors, requests, outcomes, lines, historyStreams, changeStreams, cards, covers)
	reader := &readapi.Reader{DB: pools.Read}
	// Without path cleaning, which would redirect a POST.
	router := mux.NewRouter().SkipClean(true)
	router.Use(requests.Middleware, kit.RecoverPanics, s.readersOnly(kit))
	s.partners = &commands.API{
		Kit: kit, Keys: s.keys, Committer: s.committer, Limiter: s.limiter, DB: pools.Read,
		Outcomes: outcomes, Addresses: addresses,
	}
	if s.isSandbox {
		s.partners.Simulator = commands.NewSimulator()
	}
	for _, api := range []interface{ Register(router *mux.Router) }{
		s.partners,
		&bulk.API{
			Kit: kit, Partners: s.partners, Committer: s.committer, Addresses: addresses, Draining: s.draining.Load,
			Outcomes: lines,
		},
		&imports.API{
			Kit: kit, Partners: s.partners, Limits: s.limiter, Store: s.imports.Store, Wake: s.imports.Wake,
		},
		&webhooks.API{Kit: kit, Partners: s.partners, Store: s.webhooks.Store, Sender: s.webhooks.Sender},
		&admin.API{Kit: kit, Keys: s.keys, Pool: pools.General},
		&history.API{
			Kit: kit, DB: pools.History, Wake: s.wake, Authenticate: s.authenticateAuditor, Draining: s.draining.Load,
			Streams: historyStreams,
		},
		&changes.API{
			Kit: kit, Feed: &changes.Feed{DB: pools.Read}, Partners: s.partners, Draining: s.draining.Load,
			Streams: changeStreams,
		},
		s.health(),
		&readapi.API{Kit: kit, Reader: reader, Addresses: addresses},
		// The readers' pool, so that clients that fetch proofs do not take the sealer's connections.
		&readapi.Ledger{Kit: kit, Store: ledger.NewStore(pools.Read)},
	} {
		api.Register(router)
	}
	readapi.RegisterOpenAPI(router, kit)
	p := &pages.Pages{
		Kit: kit, Reader: reader, Addresses: addresses, Site: site, CardReaders: cards, CoverReaders: covers,
	}
	p.Register(router)
	router.NotFoundHandler = requests.Middleware(p.Missing())
	router.MethodNotAllowedHandler = requests.Middleware(kit.MethodNotAllowed(router))
	return router
}

// isRead reports whether a request only reads: its method is GET or HEAD.
func isRead(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

// authenticateAuditor returns the staff user or auditor who reads the event history.
func (s *service) authenticateAuditor(ctx context.Context, h http.Header) (history.Person, error) {
	user, err := admin.AuthenticateStaffUser(ctx, s.keys, h, "auditor or staff key", "auditors and staff")
	if err != nil {
		return history.Person{}, err
	}
	return history.Person{
		Role: user.Role, Name: user.Name,
		PersonID: uuid.NullUUID{UUID: user.ID, Valid: true}, KeyID: uuid.NullUUID{UUID: user.KeyID, Valid: true},
	}, nil
}

// opsHandler returns the handler of the routes for operators.
func (s *service) opsHandler() http.Handler {
	registry := s.registry()
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

// registry returns the metrics of the parts, of the database and of the process.
func (s *service) registry() *prometheus.Registry {
	b := thisBuild()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "novelgate_build_info", Help: "Version, commit and Go version of this process; always 1.",
		ConstLabels: prometheus.Labels{"version": b.Version, "commit": b.Commit, "go": b.Go},
	})
	info.Set(1)
	registry := prometheus.NewRegistry()
	registry.MustRegister(s.collectors...)
	registry.MustRegister(
		info,
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		database.NewPoolCollector(s.db.pools),
		database.NewReadyCollector(s.probe),
		projections.NewCollector(s.db.pools.General, s.now),
		ledger.NewCollector(s.db.pools.General, s.now),
	)
	return registry
}

func (s *service) health() *readapi.Health {
	return &readapi.Health{Probe: s.probe, Draining: s.draining.Load}
}

// probe checks the dependencies of commands, and whether commands succeed.
func (s *service) probe() map[string]error {
	if s.db.isStandby {
		return map[string]error{"commands": errReadersOnly}
	}
	found := maps.Clone(s.db.pools.Probe())
	found["commands"] = s.partners.Failing()
	return found
}

// noIndex makes search engines ignore a sandbox, whatever they fetch.
func (s *service) noIndex(next http.Handler) http.Handler {
	if !s.isSandbox {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Robots-Tag", "noindex")
		next.ServeHTTP(w, r)
	})
}

// closeConnections makes responses during the drain close their connections.
func (s *service) closeConnections(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.draining.Load() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// readTimeout limits the arrival of a request.
const readTimeout = 15 * time.Second

// Limits from the end of a request's header to the end of its response. Readers have less time (httpkit.ReadLimit), and
// streams set their own limit for each part.
const (
	publicWriteTimeout = 2 * readTimeout
	opsWriteTimeout    = 60 * time.Second // a profile takes 30 s
)

// maxHeaderBytes limits the header of a request, together with the 4 KB that net/http adds. 8 KB hold the longest
// Idempotency-Key (255 bytes), the fields of tracing and of proxies, and 4 KB of cookies. Most proxies refuse a line
// of more than 8 KB.
const maxHeaderBytes = 4 << 10

// newServer returns an HTTP server with limits on headers, and time-outs against slow clients.
func newServer(handler http.Handler, logger *slog.Logger, writeTimeout time.Duration) *http.Server {
	return &http.Server{
		Handler:           httpkit.LimitFields(httpkit.CloseUnread(handler)),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
		// net/http's own answer to OPTIONS * waits for a body.
		DisableGeneralOptionsHandler: true,
	}
}

func listen(ctx context.Context, address string) (net.Listener, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	return listener, nil
}

// serveError returns the error of a server that has stopped; nil if drain has shut it down or closed its listener.
func serveError(listener net.Listener, err error) error {
	if errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return fmt.Errorf("serve %s: %w", listener.Addr(), err)
}
