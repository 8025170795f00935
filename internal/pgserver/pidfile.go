package pgserver

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// pidFile is what postmaster.pid says. Its lines are fixed by PostgreSQL's src/include/utils/pidfile.h:
// 1 process, 2 data directory, 3 start time, 4 port, 5 socket directory, 6 listen address,
// 7 shared memory, 8 status.
type pidFile struct {
	pid       int
	port      string
	socketDir string
	status    string
	lines     []string
}

func pidFilePath(cluster string) string { return filepath.Join(cluster, "postmaster.pid") }

// readPIDFile returns found = false when there is no file, or one that is just being written.
func readPIDFile(cluster string) (file pidFile, found bool, err error) {
	content, err := os.ReadFile(pidFilePath(cluster))
	if errors.Is(err, fs.ErrNotExist) {
		return pidFile{}, false, nil
	}
	if err != nil {
		return pidFile{}, false, fmt.Errorf("read postmaster.pid: %w", err)
	}
	lines := strings.Split(string(content), "\n")
	// A server started by hand in single-user mode writes its process number negated.
	pid, err := strconv.Atoi(strings.TrimPrefix(strings.TrimSpace(lines[0]), "-"))
	if err != nil {
		return pidFile{}, false, nil //nolint:nilerr // an empty file is one that is about to be filled
	}
	line := func(number int) string {
		if number > len(lines) {
			return ""
		}
		return strings.TrimSpace(lines[number-1])
	}
	return pidFile{pid: pid, port: line(4), socketDir: line(5), status: line(8), lines: lines}, true, nil
}

// ready reports whether the server takes connections: "standby" is what one says that follows another server.
func (f pidFile) ready() bool {
	return (f.status == "ready" || f.status == "standby") && f.socketDir != ""
}

// url addresses a database of the server that wrote the file.
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
