package pgserver

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const (
	superuser    = "postgres"
	databaseName = "novelgate"
	socketPort   = "5432"
	socketName   = ".s.PGSQL." + socketPort

	// The shortest limit of the systems we know: sun_path has 104 bytes on macOS, 108 on Linux,
	// the closing NUL included.
	maxSocketPath = 103
)

// layout names the files below one data directory.
type layout struct{ dir string }

func (l layout) lock() string                 { return filepath.Join(l.dir, "lock") }
func (l layout) log() string                  { return filepath.Join(l.dir, "postgres.log") }
func (l layout) cluster(major int) string     { return filepath.Join(l.dir, "pg"+strconv.Itoa(major)) }
func (l layout) initPattern(major int) string { return "pg" + strconv.Itoa(major) + ".init-*" }

// clusters returns the major versions of which data exists, ascending by directory name.
func (l layout) clusters() ([]int, error) {
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
	return majors, nil
}

// socketDir is the directory of the socket: run/ in the data directory, or, where that path would be
// too long or not fit into unix_socket_directories, a short one named after the data directory.
func (l layout) socketDir() string {
	dir := filepath.Join(l.dir, "run")
	if len(dir)+1+len(socketName) <= maxSocketPath && !strings.ContainsAny(dir, `,"'`) && strings.TrimSpace(dir) == dir {
		return dir
	}
	sum := sha256.Sum256([]byte(l.dir))
	return "/tmp/novelgate-" + hex.EncodeToString(sum[:8])
}
