package testdb

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"novelgate/internal/pgserver"
)

// hold is the main function of the holder. It returns the exit code.
func hold(dir string) int {
	// A Ctrl-C ends the tests, and that ends the holder, in order.
	signal.Ignore(syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE)
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	syscall.CloseOnExec(reportDescriptor) // the server must not keep it open
	report := os.NewFile(reportDescriptor, "report")
	if err := holdServer(ctx, control{dir}, report); err != nil {
		fmt.Fprintln(os.Stderr, err)
		_, _ = fmt.Fprintln(report, errorPrefix+strings.ReplaceAll(err.Error(), "\n", " | "))
		return 1
	}
	return 0
}

func holdServer(ctx context.Context, c control, report *os.File) error {
	holder, err := lockFile(c.holder(), syscall.LOCK_EX)
	if err != nil {
		return err
	}
	defer func() { _ = holder.Close() }()
	data, err := makeData(c)
	if err != nil {
		return err
	}
	server, err := pgserver.Start(ctx, pgserver.Config{
		DataDir:     data,
		Settings:    settings(),
		StopTimeout: 5 * time.Second,
		Logger:      slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		return errors.Join(err, os.RemoveAll(data))
	}
	users, err := serve(ctx, c, server, report)
	if users != nil {
		defer func() { _ = users.Close() }() // after the holder's lock: those who wait for it find none
	}
	return errors.Join(err, os.Remove(c.url()), server.Stop(context.WithoutCancel(ctx)), os.RemoveAll(data),
		holder.Close())
}

// serve announces the server and returns when nobody needs it any more, with the lock that keeps new
// users out until it is gone (nil when the end came before the users left).
func serve(ctx context.Context, c control, server *pgserver.Server, report *os.File) (users *os.File, err error) {
	url, err := databaseURL(server.URL(), maintenanceDatabase)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(c.url(), []byte(url), 0o600); err != nil {
		return nil, fmt.Errorf("write server URL: %w", err)
	}
	if _, err := fmt.Fprintln(report, readyPrefix+url); err != nil {
		return nil, fmt.Errorf("report server URL: %w", err)
	}
	if err := report.Close(); err != nil {
		return nil, fmt.Errorf("close report: %w", err)
	}
	for {
		select {
		case <-ctx.Done(): // told to end, users or not
			return nil, nil
		case <-server.Done():
			return nil, errors.New("the server has ended by itself")
		case <-time.After(100 * time.Millisecond):
		}
		users, err := lockFile(c.users(), syscall.LOCK_EX|syscall.LOCK_NB)
		if errors.Is(err, syscall.EWOULDBLOCK) {
			continue
		}
		if err != nil || !c.runUnderWay() {
			return users, err
		}
		if err := users.Close(); err != nil {
			return nil, fmt.Errorf("free lock: %w", err)
		}
	}
}

// settings trade durability for speed: nothing here must survive.
func settings() map[string]string {
	return map[string]string{
		"fsync":            "off",
		"full_page_writes": "off",
		"max_connections":  "400",
		"shared_buffers":   "64MB",
		// A worker that looks at the template would keep it from being cloned.
		"autovacuum": "off",
	}
}

// removeLeftover deletes the data of a holder that was killed. Its server may still be writing there: it ends by
// itself.
func removeLeftover(data string) error {
	const patience = 10 * time.Second
	deadline := time.Now().Add(patience)
	for {
		err := os.RemoveAll(data)
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("delete leftovers: %w", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

const dataPrefix = "novelgate-testdb-data-"

// makeData makes a directory for the data, after deleting what killed holders have left. The name
// contains a digest of the control directory, so that each holder deletes only what is its own.
func makeData(c control) (string, error) {
	sum := sha256.Sum256([]byte(c.dir))
	prefix := dataPrefix + strconv.Itoa(os.Geteuid()) + "-" + hex.EncodeToString(sum[:4]) + "-"
	for _, place := range []string{memoryDir, os.TempDir()} {
		leftovers, err := filepath.Glob(filepath.Join(place, prefix+"*"))
		if err != nil {
			return "", fmt.Errorf("look for leftovers: %w", err)
		}
		for _, leftover := range leftovers {
			if err := removeLeftover(leftover); err != nil {
				return "", err
			}
		}
	}
	data, err := os.MkdirTemp(DataPlace(), prefix)
	if err != nil {
		return "", fmt.Errorf("make data directory: %w", err)
	}
	// PostgreSQL runs as another user when we are root; what lies inside is private by itself.
	if err := os.Chmod(data, 0o711); err != nil { //nolint:gosec // see above
		return "", fmt.Errorf("open data directory: %w", err)
	}
	return data, nil
}

const (
	memoryDir  = "/dev/shm"
	memoryRoom = 1 << 30 // bytes that must be free there
)

// DataPlace is the directory for the data of servers: memory when it has room.
func DataPlace() string {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(memoryDir, &stat); err != nil {
		return os.TempDir()
	}
	if stat.Bavail*uint64(stat.Bsize) < memoryRoom { //nolint:gosec // a block size is positive
		return os.TempDir()
	}
	return memoryDir
}
