package main

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/mux"

	"novelgate/events/eventlog"
	"novelgate/events/handover"
	"novelgate/internal/database"
	"novelgate/internal/httpkit"
	"novelgate/internal/problem"
)

const (
	rolePause = 250 * time.Millisecond // between two reads of the role
	roleFresh = 20 * time.Millisecond  // age of a role that refuses a request
	// roleTimeout limits a read.
	roleTimeout = time.Second
)

// roles reads the role of the database, which a handover or a promotion changes while the service runs.
type roles struct {
	db  database.Querier
	now clock

	role     atomic.Pointer[handover.Role]
	mu       sync.Mutex // held during a read
	readAt   time.Time
	failedAt time.Time // of the last failed read
	failure  error
}

// last returns the role that was read last.
func (r *roles) last() handover.Role { return *r.role.Load() }

// fresh returns the role, read within the given time. It fails while the database does not answer: requests that
// wait for the same read, or come just after it, share its failure.
func (r *roles) fresh(ctx context.Context, age time.Duration) (handover.Role, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := r.now(); now.Sub(r.failedAt) < rolePause {
		return handover.Role{}, r.failure
	} else if now.Sub(r.readAt) < age {
		return r.last(), nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), roleTimeout)
	defer cancel()
	if err := r.read(ctx); err != nil {
		r.failedAt, r.failure = r.now(), err
		return handover.Role{}, err
	}
	return r.last(), nil
}

func (r *roles) read(ctx context.Context) error {
	start := r.now()
	role, err := handover.ReadRole(ctx, r.db)
	if err != nil {
		return err
	}
	r.readAt = start
	r.role.Store(&role)
	return nil
}

// shift is background work that a service does only in one role.
type shift struct {
	due  func(handover.Role) bool
	work []func(context.Context)
	stop func() // ends the work and waits for it; nil while it does not run
}

// follow starts or stops the work.
func (s *shift) follow(ctx context.Context, role handover.Role) {
	switch due := s.due(role); {
	case due && s.stop == nil:
		working, cancel := context.WithCancel(ctx)
		var all sync.WaitGroup
		for _, work := range s.work {
			all.Go(func() { work(working) })
		}
		s.stop = func() { cancel(); all.Wait() }
	case !due && s.stop != nil:
		s.stop()
		s.stop = nil
	}
}

// followRole does the work of the role that the database has, until ctx ends.
func (s *service) followRole(ctx context.Context) {
	shifts := []*shift{
		{due: handover.Role.Appends, work: s.asOrigin},
		{due: func(r handover.Role) bool { return r.Mirrors != "" }, work: s.asMirror},
	}
	was := s.roles.last()
	for ctx.Err() == nil {
		role, err := s.roles.fresh(ctx, 0)
		if err != nil {
			s.logger.DebugContext(ctx, "The role of the database is unknown", slog.Any("error", err))
			role = was
		}
		if role != was {
			s.logger.WarnContext(ctx, "The role of this service has changed", slog.Bool("appends", role.Appends()),
				slog.String("mirrors", role.Mirrors), slog.String("successor", role.Successor))
			was = role
		}
		for _, shift := range shifts {
			shift.follow(ctx, role)
		}
		eventlog.Sleep(ctx, rolePause)
	}
	for _, shift := range shifts {
		shift.follow(ctx, handover.Role{HandedOver: true}) // none is due
	}
}

// refuseElsewhere refuses what only the origin of a history serves: commands, and the routes of partners and staff. A
// mirror answers with 421. A service that has handed over answers with 503, so that partners repeat their commands.
func (s *service) refuseElsewhere(kit *httpkit.Kit) mux.MiddlewareFunc {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			reads := r.Method == http.MethodGet || r.Method == http.MethodHead
			ofOrigin := !reads || strings.HasPrefix(r.URL.Path, "/api/integrations") ||
				strings.HasPrefix(r.URL.Path, "/api/admin")
			if !ofOrigin || s.roles.last().Appends() {
				next.ServeHTTP(w, r)
				return
			}
			switch role, err := s.roles.fresh(r.Context(), roleFresh); {
			case err != nil: // 421 would make partners give up, and a promotion may be under way
				kit.Fail(w, r, problem.Unavailable(httpkit.RetryAfter).WithCause(err))
			case role.Appends():
				next.ServeHTTP(w, r)
			case role.HandedOver:
				kit.Fail(w, r, problem.HandedOver(role.Successor, httpkit.RetryAfter))
			default:
				kit.Fail(w, r, problem.Misdirected(role.Mirrors))
			}
		})
	}
}
