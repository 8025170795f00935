package pgserver

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// Server is a running PostgreSQL, our own child or that of another process.
type Server struct {
	cfg     Config
	layout  layout
	url     string
	fresh   bool
	process *process // nil when attached
	lock    *os.File // nil when attached
	watch   sync.WaitGroup

	done     chan struct{}
	detach   chan struct{} // closed by Stop when attached
	stopOnce sync.Once
	stopErr  error
}

func newOwned(cfg Config, l layout, lock *os.File, fresh bool) *Server {
	return &Server{cfg: cfg, layout: l, lock: lock, fresh: fresh, detach: make(chan struct{})}
}

func newAttached(cfg Config, l layout, url string) *Server {
	s := &Server{cfg: cfg, layout: l, url: url, done: make(chan struct{}), detach: make(chan struct{})}
	go s.watchOwner()
	return s
}

// URL addresses the database "novelgate" over the unix socket.
func (s *Server) URL() string { return s.url }

// Owned is false when another process runs the server and this one only uses it.
func (s *Server) Owned() bool { return s.process != nil }

// Fresh is true when this Start created the data directory.
func (s *Server) Fresh() bool { return s.fresh }

// Done is closed when the server has ended, whether by Stop, by a crash, or because its owner left.
// A process that goes on may call Start again.
func (s *Server) Done() <-chan struct{} {
	if s.process != nil {
		return s.process.done
	}
	return s.done
}

// Stop shuts an owned server down and waits for it; when ctx ends or Config.StopTimeout is over, it
// demands an immediate shutdown, waits for that and says so in an error. The data is safe in any case.
// An attached server is left alone. Further calls return what the first one did.
func (s *Server) Stop(ctx context.Context) error {
	s.stopOnce.Do(func() {
		if !s.Owned() {
			close(s.detach)
			<-s.done
			return
		}
		s.stopErr = s.process.stop(ctx, s.cfg.StopTimeout)
		s.watch.Wait()
		// Empty now; the next start makes it again. One below /tmp would be litter.
		_ = os.Remove(s.layout.socketDir())
		s.cfg.Logger.InfoContext(ctx, "embedded PostgreSQL has stopped", slog.String("directory", s.layout.dir))
		// Only now may another process start a server on the directory.
		if err := s.lock.Close(); err != nil && s.stopErr == nil {
			s.stopErr = fmt.Errorf("free data directory: %w", err)
		}
	})
	return s.stopErr
}

// watchOwner closes done when the owner of the server has gone, or on Stop.
func (s *Server) watchOwner() {
	defer close(s.done)
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-s.detach:
			return
		case <-tick.C:
		}
		lock, err := tryLock(s.layout.lock())
		if err != nil {
			return
		}
		if lock != nil {
			_ = lock.Close()
			return
		}
	}
}
