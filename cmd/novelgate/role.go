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
	// roleGap is the shortest time between the starts of two reads: any number of requests may ask for one.
	roleGap = 20 * time.Millisecond
	// roleTimeout limits a read of the role.
	roleTimeout = time.Second
)

// roles reads the role of the database, which a handover or a promotion changes while the service runs.
type roles struct {
	db  database.Querier
	now clock

	// replaced is the public URL of a service that was promoted in place of this one; nil if there is none, and once the
	// database is fenced.
	replaced atomic.Pointer[string]

	role     atomic.Pointer[handover.Role]
	mu       sync.Mutex // held during a read
	readAt   time.Time
	failedAt time.Time // of the last failed read
	failure  error
}

// last returns the role that was read last.
func (r *roles) last() handover.Role { return *r.role.Load() }

// fresh reads the role, or returns what another call has read since this one began. It fails while the database does
// not answer: requests that wait for the same read, or come within rolePause after it, share its failure.
func (r *roles) fresh(ctx context.Context) (handover.Role, error) {
	began := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	switch {
	case now.Sub(r.failedAt) < rolePause:
		return handover.Role{}, r.failure
	case r.readAt.After(began):
		return r.last(), nil
	}
	eventlog.Sleep(ctx, roleGap-now.Sub(r.readAt))
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), roleTimeout)
	defer cancel()
	if err := r.read(ctx); err != nil {
		r.failedAt, r.failure = r.now(), err
		return handover.Role{}, err
	}
	return r.last(), nil
}

func (r *roles) read(ctx context.Context) error {
	start, replaced := r.now(), r.replaced.Load()
	role, err := handover.ReadRole(ctx, r.db)
	if err != nil {
		return err
	}
	if replaced != nil && role.Appends() { // the fence is not in the database yet
		role.HandedOver, role.Successor = true, *replaced
	}
	r.readAt = start
	r.role.Store(&role)
	return nil
}

// runAll runs work side by side and waits until all of it has ended.
func runAll(ctx context.Context, work []func(context.Context)) {
	var all sync.WaitGroup
	for _, work := range work {
		all.Go(func() { work(ctx) })
	}
	all.Wait()
}

// roleWork is background work that a service does in one role only.
type roleWork struct {
	work []func(context.Context)
	stop func() // ends the work and waits for it; nil while it does not run
}

// run starts the work if it is wanted, and otherwise stops it.
func (w *roleWork) run(ctx context.Context, wanted bool) {
	switch {
	case wanted && w.stop == nil:
		ctx, cancel := context.WithCancel(ctx)
		var running sync.WaitGroup
		running.Go(func() { runAll(ctx, w.work) })
		w.stop = func() { cancel(); running.Wait() }
	case !wanted && w.stop != nil:
		w.stop()
		w.stop = nil
	}
}

// followRole runs the background work of the role that the database has, until ctx ends. While the role cannot be read,
// the last known one counts.
func (s *service) followRole(ctx context.Context) {
	asOrigin, asMirror := &roleWork{work: s.asOrigin}, &roleWork{work: s.asMirror}
	was := s.roles.last()
	for ctx.Err() == nil {
		role, err := s.roles.fresh(ctx)
		if err != nil {
			s.logger.DebugContext(ctx, "The role of the database is unknown", slog.Any("error", err))
			role = was
		}
		if role != was {
			s.logger.WarnContext(ctx, "The role of this service has changed", slog.Bool("appends", role.Appends()),
				slog.String("mirrors", role.Mirrors), slog.String("successor", role.Successor))
			was = role
		}
		asOrigin.run(ctx, role.Appends())
		asMirror.run(ctx, role.Mirrors != "")
		eventlog.Sleep(ctx, rolePause)
	}
	asOrigin.run(ctx, false)
	asMirror.run(ctx, false)
}

// handoverStatus returns the successor of this service for /readyz; nil unless another service continues its log.
func (s *service) handoverStatus() any {
	role := s.roles.last()
	if !role.HandedOver {
		return nil
	}
	return struct {
		Successor string `json:"successor"`
	}{role.Successor}
}

// handedOver maps the error of a command that the fence of the database has refused, before this process has read its
// new role. It returns nil for any other error.
func (s *service) handedOver(err error) *problem.Error {
	if !eventlog.IsHandedOver(err) {
		return nil
	}
	role := s.roles.last()
	if !role.HandedOver {
		role, _ = s.roles.fresh(context.Background()) // after an error the URL of the successor is unknown
	}
	return problem.HandedOver(role.Successor, httpkit.RetryAfter).WithCause(err)
}

// originOnly refuses what only the origin of a history serves: commands, and the routes of partners and staff. A mirror
// answers 421. A service whose log another one continues answers 503, so that partners repeat their commands.
func (s *service) originOnly(kit *httpkit.Kit) mux.MiddlewareFunc {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			onlyAtOrigin := !isRead(r) || strings.HasPrefix(r.URL.Path, "/api/integrations") ||
				strings.HasPrefix(r.URL.Path, "/api/admin")
			if !onlyAtOrigin || s.roles.last().Appends() {
				next.ServeHTTP(w, r)
				return
			}
			switch role, err := s.roles.fresh(r.Context()); {
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
