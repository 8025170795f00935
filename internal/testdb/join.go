package testdb

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

const (
	holderVariable = "NOVELGATE_TESTDB_HOLDER" // its value is the control directory
	startTimeout   = 2 * time.Minute           // a first start may have to download PostgreSQL

	// The holder writes one line there: "ready URL" or "error REASON".
	reportDescriptor = 3

	readyPrefix = "ready "
	errorPrefix = "error "
)

// membership keeps the shared server alive.
type membership struct{ users *os.File }

func (m *membership) leave() { _ = m.users.Close() }

// join returns the URL of the shared server, after starting a holder if there is none.
func join(c control) (*membership, string, error) {
	if err := c.make(); err != nil {
		return nil, "", err
	}
	start, err := lockFile(c.start(), syscall.LOCK_EX)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = start.Close() }()
	if err := c.noteRun(); err != nil {
		return nil, "", err
	}
	// A holder that is shutting down keeps us waiting here until it is gone.
	users, err := lockFile(c.users(), syscall.LOCK_SH)
	if err != nil {
		return nil, "", err
	}
	url, err := findOrSpawn(c)
	if err != nil {
		return nil, "", errors.Join(err, users.Close())
	}
	return &membership{users}, url, nil
}

// findOrSpawn returns the URL of a server that answers. A holder that has been told to end, or has just
// been killed, is waited for.
func findOrSpawn(c control) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	for {
		url, held, err := currentURL(c)
		if err != nil {
			return "", err
		}
		if !held {
			return spawnHolder(c)
		}
		if url != "" {
			if err = execute(url, `SELECT 1`); err == nil {
				return url, nil
			}
		}
		select {
		case <-ctx.Done():
			return "", errors.Join(errors.New("the test server does not answer"), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// currentURL tells where the server is, and whether a holder is alive.
func currentURL(c control) (url string, held bool, err error) {
	probe, err := lockFile(c.holder(), syscall.LOCK_SH|syscall.LOCK_NB)
	if err == nil {
		_ = probe.Close() // nothing was written
		return "", false, nil
	}
	if !errors.Is(err, syscall.EWOULDBLOCK) {
		return "", false, err
	}
	content, err := os.ReadFile(c.url())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", true, fmt.Errorf("read server URL: %w", err)
	}
	return string(content), true, nil
}

// spawnHolder starts this test binary once more, as the holder, and waits until its server is ready.
func spawnHolder(c control) (url string, err error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find test binary: %w", err)
	}
	log, err := os.OpenFile(c.log(), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return "", fmt.Errorf("open holder log: %w", err)
	}
	defer func() { _ = log.Close() }()
	report, reportIn, err := os.Pipe()
	if err != nil {
		return "", fmt.Errorf("make pipe: %w", err)
	}
	defer func() { _ = report.Close() }()

	cmd := exec.Command(self) //nolint:gosec,noctx // it outlives us
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), holderVariable+"="+c.dir)
	cmd.Stdout, cmd.Stderr = log, log // not ours: go test waits until nobody holds them
	cmd.ExtraFiles = []*os.File{reportIn}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	_ = reportIn.Close()
	if err != nil {
		return "", fmt.Errorf("start holder: %w", err)
	}
	timer := time.AfterFunc(startTimeout, func() { _ = report.Close() })
	defer timer.Stop()
	line, err := bufio.NewReader(report).ReadString('\n')
	line = strings.TrimSpace(line)
	if url, found := strings.CutPrefix(line, readyPrefix); found {
		_ = cmd.Process.Release() // it outlives us, and init waits for it
		return url, nil
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if reason, found := strings.CutPrefix(line, errorPrefix); found {
		return "", fmt.Errorf("start test server: %s", reason)
	}
	said, readErr := os.ReadFile(c.log())
	return "", errors.Join(fmt.Errorf("start test server: the holder has ended: %w: %s", err, said), readErr)
}
