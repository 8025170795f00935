package pgserver

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"novelgate/internal/osfile"
)

const (
	superuser    = "postgres"
	databaseName = "novelgate"
	socketPort   = "5432"
	socketName   = ".s.PGSQL." + socketPort

	// The limit of sun_path including the closing NUL is 104 bytes on macOS and 108 on Linux.
	maxSocketPath = 103
)

// layout names the files of a data directory.
type layout struct{ dir string }

func (l layout) lock() string             { return filepath.Join(l.dir, "lock") }
func (l layout) log() string              { return filepath.Join(l.dir, "postgres.log") }
func (l layout) cluster(major int) string { return filepath.Join(l.dir, "pg"+strconv.Itoa(major)) }

// majorVersions returns the major versions of the data, the newest first.
func (l layout) majorVersions() ([]int, error) {
	entries, err := os.ReadDir(l.dir)
	if err != nil {
		return nil, fmt.Errorf("read data directory: %w", err)
	}
	var majors []int
	for _, entry := range entries {
		digits, found := strings.CutPrefix(entry.Name(), "pg")
		if !found {
			continue
		}
		if major, err := strconv.Atoi(digits); err == nil {
			majors = append(majors, major)
		}
	}
	slices.SortFunc(majors, func(a, b int) int { return b - a })
	return majors, nil
}

// socketDir returns the directory of the socket: run/ in the data directory. If this path is too long or has characters
// that unix_socket_directories does not allow, it is a directory in /tmp, named after the hash of the data directory.
func (l layout) socketDir() string {
	dir := filepath.Join(l.dir, "run")
	if len(dir)+1+len(socketName) <= maxSocketPath && !strings.ContainsAny(dir, `,"'`) && strings.TrimSpace(dir) == dir {
		return dir
	}
	sum := sha256.Sum256([]byte(l.dir))
	return "/tmp/novelgate-" + hex.EncodeToString(sum[:8])
}

// tryLock locks the file at path for this process, or returns nil when another process has the lock.
func tryLock(path string) (*os.File, error) {
	file, err := osfile.Lock(path, os.O_RDWR|os.O_CREATE, syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, osfile.ErrLocked) {
		return nil, nil
	}
	return file, err
}

// pidFile is the content of postmaster.pid. PostgreSQL's src/include/utils/pidfile.h defines its lines: 1 process id, 2
// data directory, 3 start time, 4 port, 5 socket directory, 6 listen address, 7 shared memory, 8 status.
type pidFile struct {
	pid       int
	port      string
	socketDir string
	status    string
	lines     []string
}

func pidFilePath(cluster string) string { return filepath.Join(cluster, "postmaster.pid") }

// readPIDFile reads the postmaster.pid of a cluster. found is false if there is no file, or no process id in it.
func readPIDFile(cluster string) (file pidFile, found bool, err error) {
	content, err := os.ReadFile(pidFilePath(cluster))
	if errors.Is(err, fs.ErrNotExist) {
		return pidFile{}, false, nil
	}
	if err != nil {
		return pidFile{}, false, fmt.Errorf("read postmaster.pid: %w", err)
	}
	lines := strings.Split(string(content), "\n")
	// A server in single-user mode writes its process id negated.
	pid, err := strconv.Atoi(strings.TrimPrefix(strings.TrimSpace(lines[0]), "-"))
	if err != nil {
		return pidFile{}, false, nil //nolint:nilerr // the server has not written its id yet
	}
	line := func(number int) string {
		if number > len(lines) {
			return ""
		}
		return strings.TrimSpace(lines[number-1])
	}
	return pidFile{pid: pid, port: line(4), socketDir: line(5), status: line(8), lines: lines}, true, nil
}

// ready reports whether the server accepts connections. A hot standby then has the status "standby".
func (f pidFile) ready() bool {
	return (f.status == "ready" || f.status == "standby") && f.socketDir != ""
}

// url returns the address of a database of the server that wrote the file.
func (f pidFile) url(database string) string {
	return socketURL(f.socketDir, f.port, database)
}

func socketURL(dir, port, database string) string {
	query := url.Values{"host": {dir}, "port": {port}}
	return (&url.URL{
		Scheme:   "postgres",
		User:     url.User(superuser),
		Path:     "/" + database,
		RawQuery: query.Encode(),
	}).String()
}
