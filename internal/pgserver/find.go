package pgserver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// ErrNotRunning says that no server runs on a data directory.
var ErrNotRunning = errors.New("embedded PostgreSQL is not running")

// Find returns the URL of the server that runs on dataDir (empty = DefaultDataDir()), whoever owns it.
// It starts nothing and changes nothing. ErrNotRunning when there is none that answers; another error
// when dataDir may not be read.
func Find(ctx context.Context, dataDir string) (string, error) {
	if dataDir == "" {
		dataDir = DefaultDataDir()
	}
	abs, err := filepath.Abs(dataDir)
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
	slices.Sort(majors)
	for _, major := range slices.Backward(majors) {
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
