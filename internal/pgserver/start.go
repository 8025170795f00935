package pgserver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"novelgate/internal/child"
)

// Start returns the server of cfg.DataDir. It attaches to the server of another process if one runs already, otherwise
// it starts a child. It returns when the server answers and the database "novelgate" exists. ctx limits the start, not
// the life of the server. If a child does not start, the error includes the last lines of its log.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if cfg.DataDir, err = makeDataDir(cfg.DataDir); err != nil {
		return nil, err
	}
	l := layout{cfg.DataDir}
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("the start took longer than %v", startTimeout))
	defer cancel()
	for {
		lock, err := tryLock(l.lock())
		if err != nil {
			return nil, fmt.Errorf("claim data directory: %w", err)
		}
		if lock != nil {
			server, err := startOwned(ctx, cfg, l, lock)
			if err != nil {
				return nil, errors.Join(fmt.Errorf("start embedded PostgreSQL: %w", err), lock.Close())
			}
			return server, nil
		}
		url, err := find(ctx, l)
		if err == nil {
			cfg.Logger.InfoContext(ctx, "using the embedded PostgreSQL of another process", slog.String("directory", l.dir))
			server := &Server{cfg: cfg, layout: l, url: url, done: make(chan struct{}), detach: make(chan struct{})}
			go server.watchOwner()
			return server, nil
		}
		if !errors.Is(err, ErrNotRunning) {
			return nil, fmt.Errorf("attach to embedded PostgreSQL: %w", err)
		}
		// The owner is starting or stopping its server.
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for the process that holds %s: %w", l.lock(), context.Cause(ctx))
		case <-time.After(pollInterval):
		}
	}
}

// makeDataDir creates the directory, unless it exists, and returns its path without symbolic links. A directory of root
// must let the server's account pass; the files in it have private modes.
func makeDataDir(dir string) (string, error) {
	mode := fs.FileMode(0o700)
	if os.Geteuid() == 0 {
		mode = 0o755
	}
	if err := os.MkdirAll(dir, mode); err != nil {
		return "", fmt.Errorf("make data directory: %w", err)
	}
	resolved, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", fmt.Errorf("resolve data directory: %w", err)
	}
	return resolved, nil
}

// startOwned starts the server of a data directory that this process has locked.
func startOwned(ctx context.Context, cfg Config, l layout, lock *os.File) (*Server, error) {
	if err := removeUnfinished(ctx, l); err != nil {
		return nil, err
	}
	majors, err := l.majorVersions()
	if err != nil {
		return nil, err
	}
	want := 0
	if len(majors) > 0 {
		want = majors[0]
		if err := checkCluster(l, want); err != nil {
			return nil, err
		}
	}
	bin, err := findBinaries(ctx, cfg, want)
	if err != nil {
		return nil, err
	}
	owner, err := chooseAccount(l.cluster(bin.major))
	if err != nil {
		return nil, err
	}
	if err := errors.Join(owner.chown(l.lock()), ensureReach(ctx, cfg, owner, bin)); err != nil {
		return nil, err
	}
	if want == 0 {
		if err := initCluster(ctx, cfg, l, bin, owner); err != nil {
			return nil, err
		}
	}
	server := &Server{cfg: cfg, layout: l, lock: lock, fresh: want == 0}
	if err := owner.privateDir(l.socketDir()); err != nil {
		return nil, err
	}
	if err := awaitPredecessor(ctx, cfg, l.cluster(bin.major), l.socketDir()); err != nil {
		return nil, err
	}
	if err := server.launchAfterBackends(ctx, bin, owner); err != nil {
		return nil, err
	}
	server.watch.Go(func() { server.watchLog(context.WithoutCancel(ctx), owner) }) // ctx only limits the start
	return server, nil
}

// launchAfterBackends launches the server once no backend of an earlier one runs. Until then PostgreSQL refuses to
// start, and changes no data.
func (s *Server) launchAfterBackends(ctx context.Context, bin binaries, owner account) error {
	for {
		err := s.launch(ctx, bin, owner)
		if !errors.Is(err, errOldBackends) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(backendsInterval):
		}
	}
}

// errOldBackends means that the postmaster of an earlier server was killed and some of its backends still run. They end
// when their current work is done.
var errOldBackends = errors.New("processes of an earlier PostgreSQL still run")

const (
	backendsInterval = 200 * time.Millisecond
	backendsMessage  = "pre-existing shared memory block" // in the log of a PostgreSQL that refuses to start
)

// launch starts the child and waits until it accepts connections.
func (s *Server) launch(ctx context.Context, bin binaries, owner account) error {
	cluster := s.layout.cluster(bin.major)
	log, size, err := openLog(s.layout.log(), owner)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the child has its own copy
	// PostgreSQL may have been built without lz4.
	hasLZ4 := run(command(ctx, owner, cluster, bin.postgres(), "-C", "wal_compression", "-D", cluster, "-c",
		"wal_compression=lz4")) == nil
	args := serverArgs(s.cfg, cluster, s.layout.socketDir(), hasLZ4)
	cmd := command(context.WithoutCancel(ctx), owner, cluster, bin.postgres(), args...) // Stop ends it, not a context
	cmd.Stdout, cmd.Stderr = log, log
	if s.process.Process, err = child.Start(cmd); err != nil {
		return err
	}
	if err = s.awaitReady(ctx, cluster); err == nil {
		err = createDatabase(ctx, s.url)
	}
	if err != nil {
		stopErr := s.process.stop(context.WithoutCancel(ctx), s.cfg.StopTimeout)
		output := tailLog(s.layout.log(), size)
		if strings.Contains(output, backendsMessage) {
			err = errors.Join(errOldBackends, err)
		}
		return errors.Join(fmt.Errorf("%w; the log %s ends with:\n%s", err, s.layout.log(), output), stopErr)
	}
	s.cfg.Logger.InfoContext(ctx, "embedded PostgreSQL is ready", slog.String("directory", cluster),
		slog.String("programs", bin.dir), slog.String("user", owner.name), slog.Int("pid", s.process.PID()))
	return nil
}

// serverArgs returns the command line of the server. Later settings override earlier ones.
func serverArgs(cfg Config, cluster, socketDir string, hasLZ4 bool) []string {
	args := []string{"-D", cluster}
	set := func(name, value string) { args = append(args, "-c", name+"="+value) }
	set("listen_addresses", "")
	set("unix_socket_directories", socketDir)
	set("unix_socket_permissions", "0700")
	set("port", socketPort)
	set("cluster_name", databaseName)
	set("logging_collector", "off")
	set("log_destination", "stderr")
	set("log_timezone", "UTC")
	set("timezone", "UTC")
	size, _ := disk(cluster)
	settings := machineSettings(memory(), size)
	if hasLZ4 {
		settings["wal_compression"] = "lz4"
	}
	maps.Copy(settings, cfg.Settings)
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		set(name, settings[name])
	}
	return args
}

// awaitReady waits until the child accepts connections, and sets the URL.
func (s *Server) awaitReady(ctx context.Context, cluster string) error {
	for {
		file, found, err := readPIDFile(cluster)
		if err != nil {
			return err
		}
		if found && file.pid == s.process.PID() && file.ready() {
			s.url = file.url(databaseName)
			return nil
		}
		select {
		case <-s.process.Done():
			return fmt.Errorf("postgres has ended: %w", s.process.Wait())
		case <-ctx.Done():
			return fmt.Errorf("wait for postgres: %w", context.Cause(ctx))
		case <-time.After(pollInterval):
		}
	}
}
