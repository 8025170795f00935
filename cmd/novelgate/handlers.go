package main

import (
	"context"
	"maps"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/google/uuid"
	"github.com/gorilla/mux"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"novelgate/commands"
	"novelgate/commands/admin"
	"novelgate/commands/imports"
	"novelgate/events/ledger"
	"novelgate/internal/httpkit"
	"novelgate/internal/problem"
	"novelgate/projections"
	"novelgate/readapi"
	"novelgate/readapi/changes"
	"novelgate/readapi/history"
	"novelgate/readapi/pages"
)

// newKit returns the Kit of all public routes.
func (s *service) newKit(timeout time.Duration, readers, staff *httpkit.Readers) *httpkit.Kit {
	return &httpkit.Kit{
		Logger: s.logger, Timeout: timeout, Now: s.now, Readers: readers, Staff: staff,
		Standbys: s.standbys,
		Problems: []func(error) *problem.Error{
			commands.Problem, admin.Problem, readapi.Problem, history.Problem,
			changes.Problem,
		},
	}
}

// publicHandler serves partners, staff, auditors and readers.
func (s *service) publicHandler(
	site pages.Site, kit *httpkit.Kit, streams, partnerStreams *httpkit.Readers, requests *httpkit.Metrics,
	outcomes *prometheus.CounterVec,
) http.Handler {
	pools := s.db.pools
	addresses := httpkit.NewAddresses(s.publicURL)
	s.imports.Problem = kit.Problem
	reader := &readapi.Reader{DB: pools.Read}
	if s.standbys != nil {
		reader.DB = s.standbys
	}
	// Without path cleaning, which would redirect a POST.
	router := mux.NewRouter().SkipClean(true)
	router.Use(requests.Middleware, kit.RecoverPanics)
	s.partners = &commands.API{
		Kit: kit, Keys: s.keys, Committer: s.committer, Limiter: s.limiter, Records: pools.Read,
		Outcomes: outcomes, Addresses: addresses,
	}
	for _, api := range []interface{ Register(router *mux.Router) }{
		s.partners,
		&imports.API{Kit: kit, Partners: s.partners, Store: s.imports.Store, Wake: s.imports.Wake},
		&admin.API{Kit: kit, Keys: s.keys, Pool: pools.General},
		&history.API{
			Kit: kit, DB: pools.History, Wake: s.wake, Authenticate: s.authenticateAuditor, Draining: s.draining.Load,
			Streams: streams,
		},
		&changes.API{
			Kit: kit, Feed: &changes.Feed{DB: pools.Read}, Partners: s.partners, Draining: s.draining.Load,
			Streams: partnerStreams,
		},
		s.health(),
		&readapi.API{Kit: kit, Reader: reader, Addresses: addresses},
		// The readers' pool, so that clients that fetch proofs do not take the sealer's connections.
		&readapi.Ledger{Kit: kit, Store: ledger.NewStore(pools.Read)},
	} {
		api.Register(router)
	}
	readapi.RegisterOpenAPI(router, kit)
	p := &pages.Pages{Kit: kit, Reader: reader, Addresses: addresses, Site: site}
	p.Register(router)
	router.NotFoundHandler = requests.Middleware(p.Missing())
	router.MethodNotAllowedHandler = requests.Middleware(kit.MethodNotAllowed(router))
	return s.closeConnections(httpkit.WithRequestID(router))
}

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
	return &readapi.Health{Probe: s.probe, Draining: s.draining.Load}
}

// probe checks the dependencies of commands, and whether commands succeed.
func (s *service) probe() map[string]error {
	found := maps.Clone(s.db.pools.Probe())
	found["commands"] = s.partners.Failing()
	return found
}
