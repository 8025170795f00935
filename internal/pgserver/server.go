// Package pgserver runs PostgreSQL as a child of this process, so that Novelgate works without an existing database
// server.
//
// It runs unmodified programs of PostgreSQL: installed ones, or else a download from npm. The server listens only on a
// unix socket in its private directory, and trusts whoever can reach the socket: its own account, and root.
//
// # Layout of a data directory
//
//	lock          flock, held by the process that runs the server
//	pg15/         the PostgreSQL data directory, named after the major version; it also has the socket
//	pg15/log/     PostgreSQL's logs, one for each weekday; each is overwritten a week later
//	pg15.init-…/  an unfinished initdb; removed by the next start
//
// # Invariants
//
//   - One owner: the process with the lock. Other processes find the server by its socket.
//   - The server never outlives its owner. Stop sends SIGINT (fast shutdown). If the owner is killed, the kernel sends
//     the SIGINT (Linux, PR_SET_PDEATHSIG); elsewhere the next start does.
//   - Data is never deleted, except what a failed Restore has written. A directory with data of another major version
//     is refused. An interrupted initdb leaves nothing that looks like data, because it runs in a temporary directory,
//     which is renamed at the end.
//   - Nothing runs as root. Root starts the server as the owner of the directory, otherwise as "postgres", otherwise as
//     "nobody".
//   - fsync stays on unless Settings switch it off.
package pgserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"novelgate/internal/system"
)

// Config configures a server. The zero value works.
type Config struct {
	// DataDir is the directory for all data of the server. Default: DefaultDataDir().
	DataDir string

	// Settings are added to the command line of the server as `-c name=value`, and override its other settings. With
	// fsync=off, initdb does not sync either.
	Settings map[string]string

	// BackupDir is a directory, which must exist, into which the server archives its WAL, at the latest after a minute.
	// BackUp makes base backups in it. Default: none.
	BackupDir string

	// StopTimeout limits a fast shutdown. Afterwards Stop requests an immediate shutdown, after which the next start runs
	// crash recovery. Default: 30 seconds.
	StopTimeout time.Duration

	// Logger gets starts, stops and downloads. Default: none.
	Logger *slog.Logger
}

// Server is a running PostgreSQL, a child of this process.
type Server struct {
	cfg     Config
	dir     string // the data directory
	cluster string // the PostgreSQL data directory in it
	bin     binaries
	as      account
	lock    *os.File
	archive *os.File // the lock of the backup directory; nil without one
	process *system.Child

	recovery *recovery // nil, except in Restore
}

var (
	// ErrInUse means that another process has the data directory.
	ErrInUse = errors.New("the data directory is in use by another process")

	// ErrNotRunning means that no server runs on a data directory.
	ErrNotRunning = errors.New("the embedded PostgreSQL is not running, or still starting")
)

const (
	superuser    = "postgres"
	databaseName = "novelgate"
	defaultPort  = "5432"
	socketName   = ".s.PGSQL." + defaultPort
	maxSocket    = 103 // bytes of a socket's path on macOS; Linux allows 107
)

// Start starts the server of cfg.DataDir. It returns when the server answers and the database "novelgate" exists. It
// fails with ErrInUse if another process has the directory. ctx limits the start, not the life of the server. If
// PostgreSQL does not start, the error includes what it said.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	const timeout = 5 * time.Minute // includes a crash recovery
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("the start took longer than %v", timeout))
	defer cancel()
	return open(ctx, cfg, nil)
}

// open starts the server, after a recovery unless that is nil.
func open(ctx context.Context, cfg Config, from *recovery) (_ *Server, err error) {
	forgetVariables()
	cfg.StopTimeout = cmp.Or(cfg.StopTimeout, 30*time.Second)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	s := &Server{cfg: cfg, recovery: from}
	if cfg.BackupDir != "" {
		if s.cfg.BackupDir, err = resolveDir(cfg.BackupDir); err != nil {
			return nil, err
		}
	}
	if s.dir, err = makeDataDir(cmp.Or(cfg.DataDir, DefaultDataDir())); err != nil {
		return nil, err
	}
	if cfg.DataDir == "" && strings.HasPrefix(s.dir, filepath.Clean(os.TempDir())+"/") {
		cfg.Logger.WarnContext(ctx, "the data is below a temporary directory, which the system may empty: choose another "+
			"one with --data-dir", slog.String("directory", s.dir))
	}
	// A program that the owner had begun to start has the lock until it executes, also if the owner has ended.
	for tries := 0; ; tries++ {
		s.lock, err = system.Lock(filepath.Join(s.dir, "lock"), os.O_RDWR|os.O_CREATE, syscall.LOCK_EX|syscall.LOCK_NB)
		if tries == 10 || !errors.Is(err, system.ErrLocked) {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	switch {
	case errors.Is(err, system.ErrLocked):
		return nil, fmt.Errorf("%w: %s", ErrInUse, s.dir)
	case err != nil:
		return nil, withOwner(fmt.Errorf("claim the data directory: %w", err), s.dir)
	}
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start the embedded PostgreSQL: %w", err), context.Cause(ctx), s.free())
	}
	cfg.Logger.InfoContext(ctx, "embedded PostgreSQL is ready", slog.String("directory", s.cluster),
		slog.String("programs", s.bin.dir), slog.String("user", s.as.name), slog.Int("pid", s.process.PID()))
	return s, nil
}

// makeDataDir creates the directory, unless it exists, and returns its path without symbolic links.
func makeDataDir(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err == nil {
		err = os.MkdirAll(dir, 0o755) //nolint:gosec // the directories in it are private
	}
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return "", withOwner(fmt.Errorf("make data directory: %w", err), dir)
	}
	if len(dir)+len("/pg15/")+len(socketName) > maxSocket || strings.Contains(dir, ",") {
		return "", fmt.Errorf("the data directory %s cannot have the socket of PostgreSQL: its path must have at most %d "+
			"bytes and no comma", dir, maxSocket-len("/pg15/")-len(socketName))
	}
	owner, err := ownerOf(dir)
	switch {
	case err != nil:
		return "", err
	case owner.uid == 0 && os.Geteuid() == 0:
		err = os.Chmod(dir, 0o755) //nolint:gosec // the account of the server must pass
	case owner.uid != 0 && os.Geteuid() != 0 && owner.uid != os.Geteuid():
		err = withOwner(fs.ErrPermission, dir) // it could replace what this process stores
	}
	return dir, err
}

// start starts the server of a locked data directory.
func (s *Server) start(ctx context.Context) error {
	majors, err := majorVersions(s.dir)
	if err != nil {
		return err
	}
	want := 0
	if len(majors) > 0 {
		want = majors[0]
	}
	isNew := want == 0
	if s.recovery != nil {
		if err := checkEmpty(s.dir); err != nil {
			return err
		}
		want = s.recovery.PostgreSQL
	}
	leftovers, _ := fs.Glob(os.DirFS(s.dir), "pg*.init-*") // the pattern is good
	for _, leftover := range leftovers {
		_ = os.RemoveAll(filepath.Join(s.dir, leftover)) // an initdb that was just killed may still clean up itself
	}
	if s.bin, err = newFinder(s.cfg.Logger).find(ctx, want); err != nil {
		return err
	}
	s.cluster = filepath.Join(s.dir, "pg"+strconv.Itoa(s.bin.major))
	if isNew {
		s.as, err = chooseAccount(s.dir)
	} else {
		s.as, err = ownerOf(s.cluster)
	}
	switch {
	case err != nil:
		return err
	case s.as.uid == 0:
		return fmt.Errorf("%s belongs to root, as whom PostgreSQL does not run. A copy needs the owner of the original: "+
			"chown -R USER %[1]s", s.cluster)
	case os.Geteuid() != 0 && s.as.uid != os.Geteuid():
		return withOwner(fs.ErrPermission, s.cluster)
	case os.Geteuid() == 0:
		if err := errors.Join(s.lock.Chown(s.as.uid, s.as.gid), s.checkReach(ctx)); err != nil {
			return err
		}
	}
	switch {
	case s.recovery != nil:
		s.cfg.Logger.InfoContext(ctx, "restoring a backup", slog.String("backup", s.recovery.Name),
			slog.String("directory", s.cluster), slog.String("user", s.as.name))
		if err = s.unpack(ctx, s.recovery); err == nil {
			s.removeStalePIDs()
			err = s.launch(ctx)
		}
		if err != nil {
			return errors.Join(err, os.RemoveAll(s.cluster)) // of this recovery: checkEmpty
		}
		return nil
	case isNew:
		if err := s.initdb(ctx); err != nil {
			return err
		}
	}
	if s.cfg.BackupDir != "" {
		if err := s.claimArchive(ctx); err != nil {
			return err
		}
	}
	return s.launchAfterPredecessor(ctx)
}

// free releases the data directory, and the backup directory.
func (s *Server) free() error {
	if s.archive != nil {
		_ = s.archive.Close() // on disk already
	}
	return s.lock.Close()
}

// majorVersions returns the major versions of the data in a data directory, the newest first.
func majorVersions(dir string) (majors []int, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read data directory: %w", err)
	}
	for _, entry := range entries {
		digits, found := strings.CutPrefix(entry.Name(), "pg")
		if major, err := strconv.Atoi(digits); found && err == nil {
			majors = append(majors, major)
		}
	}
	slices.SortFunc(majors, func(a, b int) int { return b - a })
	return majors, nil
}

// initdb creates the PostgreSQL data directory.
func (s *Server) initdb(ctx context.Context) error {
	s.cfg.Logger.InfoContext(ctx, "creating a PostgreSQL data directory", slog.String("directory", s.cluster),
		slog.String("user", s.as.name))
	temp, err := os.MkdirTemp(s.dir, filepath.Base(s.cluster)+".init-*")
	if err != nil {
		return fmt.Errorf("make directory for initdb: %w", err)
	}
	defer func() { _ = os.RemoveAll(temp) }() // renamed already, unless something failed
	if os.Geteuid() == 0 {
		if err := os.Lchown(temp, s.as.uid, s.as.gid); err != nil {
			return fmt.Errorf("hand over to user %s: %w", s.as.name, err)
		}
	}
	args := []string{"--pgdata=" + temp, "--username=" + superuser, "--auth=trust", "--encoding=UTF8", "--locale=C"}
	if s.cfg.Settings["fsync"] == "off" {
		args = append(args, "--no-sync")
	}
	if err := run(s.as.command(ctx, temp, s.bin.program("initdb"), args...)); err != nil {
		return err
	}
	if err := os.Rename(temp, s.cluster); err != nil {
		return fmt.Errorf("put data directory into place: %w", err)
	}
	return system.Sync(s.dir)
}

// launchAfterPredecessor launches the server once no process of an earlier one runs, whose owner or postmaster was
// killed. Until then PostgreSQL refuses to start, and changes no data.
func (s *Server) launchAfterPredecessor(ctx context.Context) error {
	const patience, interval = time.Minute, 200 * time.Millisecond
	for began, waits := time.Now(), false; ; waits = true { //nolint:forbidigo // a limit of real time
		s.removeStalePIDs()
		err := s.launch(ctx)
		if err == nil || ctx.Err() != nil || time.Since(began) > patience ||
			!strings.Contains(err.Error(), `lock file "postmaster.pid" already exists`) &&
				!strings.Contains(err.Error(), "pre-existing shared memory block") {
			return err
		}
		if !waits {
			s.cfg.Logger.WarnContext(ctx, "an earlier PostgreSQL still runs on the data; waiting for its end",
				slog.Any("error", err))
		}
		if !diesWithParent {
			_ = run(s.as.command(ctx, s.cluster, s.bin.program("pg_ctl"), "stop", "-m", "fast", "-D", s.cluster))
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(interval):
		}
	}
}

// removeStalePIDs removes the postmaster.pid of a killed server whose process id another process has now, in a
// container perhaps a thread of this one. PostgreSQL would take it for its predecessor. Without the file PostgreSQL
// still finds surviving processes of the predecessor, by their shared memory. The lock of the socket has the same
// process id; a copy by pg_basebackup has only this lock.
func (s *Server) removeStalePIDs() {
	file := filepath.Join(s.cluster, "postmaster.pid")
	content, err := os.ReadFile(file)
	if err == nil {
		// A postmaster works in its data directory. Without an answer, PostgreSQL knows better.
		pid, _, _ := strings.Cut(string(content), "\n")
		if place, err := os.Readlink("/proc/" + pid + "/cwd"); err != nil || place == s.cluster {
			return
		}
		_ = os.Remove(file)
	}
	_ = os.Remove(filepath.Join(s.cluster, socketName+".lock"))
}

// launch starts the child and waits until it answers.
func (s *Server) launch(ctx context.Context) error {
	began := time.Now()                                      //nolint:forbidigo // compared with times of files
	output, err := os.CreateTemp("", "novelgate-postgres-*") // until PostgreSQL opens its log
	if err != nil {
		return fmt.Errorf("make a file for messages: %w", err)
	}
	defer func() { _ = output.Close() }() // the child has its own copy
	if err := os.Remove(output.Name()); err != nil {
		return fmt.Errorf("unlink the file for messages: %w", err)
	}
	args := []string{"-D", s.cluster}
	for name, value := range s.settings(ctx) {
		args = append(args, "-c", name+"="+value)
	}
	cmd := s.as.command(context.WithoutCancel(ctx), s.cluster, s.bin.program("postgres"), args...)
	cmd.Stdout, cmd.Stderr = output, output
	if s.process, err = system.StartChild(cmd); err != nil {
		return err
	}
	for err == nil && !s.isReady() {
		select {
		case <-s.process.Done():
			err = errors.New("postgres has ended")
		case <-ctx.Done():
			err = fmt.Errorf("wait for postgres: %w", context.Cause(ctx))
		case <-time.After(10 * time.Millisecond):
		}
	}
	if err == nil {
		err = s.createDatabase(ctx)
	}
	if err == nil {
		return nil
	}
	stopErr := s.stop(context.WithoutCancel(ctx))
	// What the child has written, and then the log that it has opened since. Another process writes that.
	said, _ := io.ReadAll(io.NewSectionReader(output, 0, 1<<20))
	said = []byte(lastLines(string(said), 6) + "\n")
	collects := strings.Contains(string(said), "logging collector")
	for tries := 0; collects && tries < 40; tries++ { // for two seconds
		time.Sleep(50 * time.Millisecond)
		logs, _ := filepath.Glob(filepath.Join(s.cluster, "log", "*"))
		for _, log := range logs {
			info, statErr := os.Stat(log)
			if content, _ := os.ReadFile(log); statErr == nil && info.ModTime().After(began) &&
				strings.Contains(string(content), "database system is shut down") {
				said, collects = append(said, content...), false
			}
		}
	}
	return errors.Join(fmt.Errorf("%w; PostgreSQL says:\n%s", err, lastLines(string(said), 18)), stopErr)
}

// isReady reports whether the child accepts connections. It asks the file as pg_ctl does: the server logs every
// connection that comes too early.
func (s *Server) isReady() bool {
	content, _ := os.ReadFile(filepath.Join(s.cluster, "postmaster.pid"))
	lines := strings.Split(string(content), "\n") // src/include/utils/pidfile.h
	return len(lines) > 7 && lines[0] == strconv.Itoa(s.process.PID()) &&
		(strings.HasPrefix(lines[7], "ready") || strings.HasPrefix(lines[7], "standby") && s.recovery == nil)
}

// createDatabase creates the database, unless it exists.
func (s *Server) createDatabase(ctx context.Context) error {
	conn, err := connect(ctx, s.urlOf("postgres"))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	var exists bool
	if err := conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)`,
		databaseName).Scan(&exists); err != nil {
		return fmt.Errorf("look for database: %w", err)
	}
	if exists {
		return nil
	}
	if _, err := conn.Exec(ctx, `CREATE DATABASE `+databaseName); err != nil {
		return fmt.Errorf("create database: %w", err)
	}
	return nil
}

// URL returns the address of the database "novelgate" on the unix socket.
func (s *Server) URL() string { return s.urlOf(databaseName) }

func (s *Server) urlOf(database string) string {
	return socketURL(s.cluster, cmp.Or(s.cfg.Settings["port"], defaultPort), database)
}

// socketURL writes a space as %20, because libpq reads a plus sign as itself.
func socketURL(cluster, port, database string) string {
	return "postgres://" + superuser + "@/" + database + "?host=" +
		strings.ReplaceAll(url.QueryEscape(cluster), "+", "%20") + "&port=" + port
}

// Done is closed when the server has ended. Call Stop then, which frees the data directory.
func (s *Server) Done() <-chan struct{} { return s.process.Done() }

// Command returns a command that runs another program of the server's PostgreSQL, as the server's account.
func (s *Server) Command(ctx context.Context, program string, args ...string) *exec.Cmd {
	return s.as.command(ctx, s.cluster, s.bin.program(program), args...)
}

// Stop shuts the server down and waits for its end. When ctx ends or after Config.StopTimeout, it requests an immediate
// shutdown, waits for it and returns an error. The data is safe in any case.
func (s *Server) Stop(ctx context.Context) error {
	err := s.stop(ctx)
	s.cfg.Logger.InfoContext(ctx, "embedded PostgreSQL has stopped", slog.String("directory", s.dir))
	if closeErr := s.free(); !errors.Is(closeErr, os.ErrClosed) { // Stop was called before
		err = errors.Join(err, closeErr)
	}
	return err
}

// stop sends SIGINT (fast shutdown), then SIGQUIT (immediate shutdown), and finally SIGKILL.
func (s *Server) stop(ctx context.Context) error {
	s.process.Signal(syscall.SIGINT)
	select {
	case <-s.process.Done():
		return nil
	case <-ctx.Done():
	case <-time.After(s.cfg.StopTimeout):
	}
	s.process.Signal(syscall.SIGQUIT)
	select {
	case <-s.process.Done():
		return errors.New("PostgreSQL did not shut down in time, and was stopped at once; the next start recovers")
	case <-time.After(10 * time.Second): // a postmaster kills its backends 5 s after SIGQUIT
	}
	s.process.Signal(syscall.SIGKILL)
	<-s.process.Done()
	return errors.New("PostgreSQL did not shut down, and was killed; the next start recovers")
}

// Find returns the URL of the server that runs on dataDir ("": DefaultDataDir()). It starts and changes nothing. It
// fails with ErrNotRunning when no server listens, and with the reason when one listens and refuses the connection.
func Find(ctx context.Context, dataDir string) (string, error) {
	forgetVariables()
	dir, err := filepath.Abs(cmp.Or(dataDir, DefaultDataDir()))
	if err != nil {
		return "", fmt.Errorf("resolve data directory: %w", err)
	}
	if resolved, err := filepath.EvalSymlinks(dir); err == nil {
		dir = resolved
	}
	majors, err := majorVersions(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", withOwner(err, dir)
	}
	for _, major := range majors {
		cluster := filepath.Join(dir, "pg"+strconv.Itoa(major))
		url := socketURL(cluster, defaultPort, databaseName)
		conn, err := connect(ctx, url)
		switch {
		case err == nil:
			return url, conn.Close(ctx)
		case errors.Is(err, fs.ErrPermission):
			return "", withOwner(fs.ErrPermission, cluster)
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ECONNREFUSED):
			return "", err
		}
	}
	return "", fmt.Errorf("%w on %s", ErrNotRunning, dir)
}

func connect(ctx context.Context, url string) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("connect to the embedded PostgreSQL: %w", err)
	}
	return conn, nil
}

// forgetVariables removes libpq's variables, such as PGOPTIONS, PGSERVICE and PGCHANNELBINDING, from the environment of
// this process. They are about other servers, and pgx would apply them to each connection.
func forgetVariables() {
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		if strings.HasPrefix(name, "PG") && !strings.HasPrefix(name, "PG_") {
			_ = os.Unsetenv(name) // the name is valid
		}
	}
}
