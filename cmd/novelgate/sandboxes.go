package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"novelgate/events/eventlog"
	"novelgate/internal/apikey"
	"novelgate/internal/database"
	"novelgate/internal/httpkit"
	"novelgate/internal/problem"
	"novelgate/internal/sandbox"
)

// sandboxes serves requests with keys of sandboxes, whatever their path. Each sandbox gets a service of its own on its
// database, opened with the first request, so that no handler and no query knows of sandboxes, except those of
// simulated faults and of the certification. Create it with newSandboxes.
type sandboxes struct {
	main     *service
	kit      *httpkit.Kit
	settings serveCommand // of each sandbox, without the URL of its database
	maxOpen  int          // maximum number of open sandboxes; 0: keys of sandboxes are refused

	mu      sync.Mutex
	open    map[string]*openSandbox
	closing sync.WaitGroup
}

// openSandbox is the service of one sandbox. sandboxes.mu guards requests and usedAt; the other fields are set before
// opened is closed.
type openSandbox struct {
	requests int // under way
	usedAt   time.Time

	opened  chan struct{}
	service *service
	err     error
	stop    func() // ends the service and closes its database; nil if it did not open
}

// newSandboxes returns sandboxes with the settings of serve that are named here. All others are off, also those that a
// later version adds, except in Site and Webhooks: nothing may publish what is in a sandbox.
func newSandboxes(main *service, c *serveCommand, kit *httpkit.Kit) *sandboxes {
	settings := serveCommand{
		DatabaseConnections: database.LeastConnections, Readers: c.Readers, RequestTimeout: c.RequestTimeout,
		ImportRetention: c.ImportRetention, Webhooks: c.Webhooks, Site: c.Site,
		AllowUnsafeDurability: c.AllowUnsafeDurability, PauseLedger: true,
	}
	settings.Site.Covers = "none" // otherwise the hosts of covers get requests
	return &sandboxes{main: main, kit: kit, settings: settings, maxOpen: c.Sandboxes, open: map[string]*openSandbox{}}
}

// route sends requests with a valid key of a sandbox to its service, and those without one to next. It answers itself
// if the integration is disabled or the sandbox cannot be opened. On a standby, next gets all requests.
func (b *sandboxes) route(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key, err := httpkit.Bearer(r.Header, "API key")
		if err != nil {
			next.ServeHTTP(w, r)
			return
		}
		secret, err := apikey.Parse(key)
		if err != nil || secret.Kind() != apikey.Sandbox || b.main.db.isStandby {
			next.ServeHTTP(w, r)
			return
		}
		s, leave, err := b.enter(r.Context(), secret.SandboxName())
		if err == nil {
			defer leave()
			err = s.partners.StillAdmitted(r.Context(), r)
		}
		switch refused, ok := errors.AsType[*problem.Error](err); {
		case err == nil:
			s.handler.ServeHTTP(&uncached{w}, r)
		case ok && refused.Code == problem.CodeUnauthorized: // next treats it as any other unknown key
			next.ServeHTTP(w, r)
		default:
			b.kit.DelayRefusal(r, uuid.Nil, err)
			b.kit.Fail(w, r, err)
		}
	})
}

// uncached is the answer to a request with the key of a sandbox. Shared caches must not keep it, because everyone else
// gets a public page at the same address.
type uncached struct{ http.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (u *uncached) WriteHeader(status int) {
	u.Header().Set("Cache-Control", "private, no-store")
	u.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (u *uncached) Write(b []byte) (int, error) {
	u.Header().Set("Cache-Control", "private, no-store") // before the header is written; no effect later
	return u.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (u *uncached) Unwrap() http.ResponseWriter { return u.ResponseWriter }

// enter returns the service of a sandbox, and opens it if necessary. If err is nil, call leave after the answer.
func (b *sandboxes) enter(ctx context.Context, name string) (s *service, leave func(), err error) {
	box, err := b.begin(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	leave = func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		box.requests--
	}
	select {
	case <-box.opened:
		err = box.err
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		leave()
		return nil, nil, problem.Unavailable(httpkit.RetryAfter).WithCause(err)
	}
	return box.service, leave, nil
}

// begin counts a request to a sandbox. If the sandbox is not open, it starts to open it.
func (b *sandboxes) begin(ctx context.Context, name string) (*openSandbox, error) {
	b.mu.Lock()
	box := b.open[name]
	if box == nil {
		b.mu.Unlock() // during the query
		id, err := b.find(ctx, name)
		if err != nil {
			return nil, err
		}
		b.mu.Lock()
		if box = b.open[name]; box == nil {
			if b.main.draining.Load() || !b.makeRoom() {
				b.mu.Unlock()
				return nil, problem.Unavailable(httpkit.RetryAfter)
			}
			box = &openSandbox{opened: make(chan struct{})}
			b.open[name] = box
			b.closing.Add(1) // until it is closed
			go b.start(context.WithoutCancel(ctx), name, id, box)
		}
	}
	box.requests++
	box.usedAt = b.main.now()
	b.mu.Unlock()
	return box, nil
}

// find returns the id of the database of a sandbox. It fails with problem.CodeUnauthorized if the sandbox does not
// exist or maxOpen is 0.
func (b *sandboxes) find(ctx context.Context, name string) (uint32, error) {
	list, err := sandbox.List(ctx, b.main.db.pools.General)
	if err == nil && (list[name] == 0 || b.maxOpen == 0) {
		err = problem.Unauthorized("The API key is not valid.")
	}
	return list[name], err
}

// makeRoom reports whether another sandbox may be open. If maxOpen sandboxes are open, it begins to close the least
// recently used one without requests under way. The caller holds b.mu.
func (b *sandboxes) makeRoom() bool {
	if len(b.open) < b.maxOpen {
		return true
	}
	oldest := ""
	for name, box := range b.open {
		if box.requests == 0 && (oldest == "" || box.usedAt.Before(b.open[oldest].usedAt)) {
			oldest = name
		}
	}
	if oldest == "" {
		return false
	}
	b.close(oldest, b.open[oldest])
	return true
}

// start opens a sandbox, whose database has the id, and then closes box.opened.
func (b *sandboxes) start(ctx context.Context, name string, id uint32, box *openSandbox) {
	defer close(box.opened)
	if box.err = b.startService(ctx, name, id, box); box.err != nil {
		b.main.logger.ErrorContext(ctx, "a sandbox does not open", slog.String("sandbox", name), slog.Any("error", box.err))
		b.mu.Lock()
		defer b.mu.Unlock()
		b.close(name, box) // the next request tries again
	}
}

// startService opens the database of a sandbox, starts its background work, and sets service and stop.
func (b *sandboxes) startService(ctx context.Context, name string, id uint32, box *openSandbox) error {
	url, err := sandbox.URL(b.main.db.pools.General.Config().ConnString(), name)
	if err != nil {
		return err
	}
	logger := b.main.logger.With(slog.String("sandbox", name))
	settings, db := b.settings, &databaseServer{url: url, logger: logger}
	s := &service{
		logger: logger, now: b.main.now, db: db, isSandbox: true, draining: b.main.draining, publicURL: b.main.publicURL,
	}
	err = db.open(ctx, settings.DatabaseConnections, settings.AllowUnsafeDurability)
	if err == nil {
		err = s.wire(ctx, &settings)
	}
	if err != nil {
		db.stop(ctx)
		return fmt.Errorf("open sandbox: %w", err)
	}
	s.background = append(s.background, func(ctx context.Context) { b.watch(ctx, name, id, box) })
	workCtx, cancel := context.WithCancel(ctx)
	group, workCtx := errgroup.WithContext(workCtx)
	s.startWork(workCtx, group)
	box.service = s
	box.stop = func() {
		s.finish(ctx)
		cancel()
		if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
			logger.WarnContext(ctx, "a sandbox ended with an error", slog.Any("error", err))
		}
		db.stop(ctx)
	}
	return nil
}

// watchInterval is the time between two checks of a sandbox's database.
const watchInterval = time.Second

// watch closes a sandbox when it is deleted or wiped: the database with the id is gone.
func (b *sandboxes) watch(ctx context.Context, name string, id uint32, box *openSandbox) {
	for eventlog.Sleep(ctx, watchInterval) {
		if list, err := sandbox.List(ctx, b.main.db.pools.General); err == nil && list[name] != id {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.close(name, box)
			return
		}
	}
}

// close starts to close a sandbox, unless that has begun already. It does not wait, because start and the background
// work of the sandbox call it. The caller holds b.mu.
func (b *sandboxes) close(name string, box *openSandbox) {
	if b.open[name] != box {
		return
	}
	delete(b.open, name)
	go func() {
		defer b.closing.Done()
		<-box.opened
		if box.stop != nil {
			box.stop()
		}
	}()
}

// closeAll closes all sandboxes and waits for them. Call it when no request is under way.
func (b *sandboxes) closeAll() {
	b.mu.Lock()
	for name, box := range b.open {
		b.close(name, box)
	}
	b.mu.Unlock()
	b.closing.Wait()
}
