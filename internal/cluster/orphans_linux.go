package cluster

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// adoptOrphans makes this process the parent of processes that lose theirs, and waits for these until stop is called.
// A PostgreSQL that Patroni has started is such an orphan. When it dies Patroni sees it until its parent has waited for
// it. systemd does so at once; the first process of a container may take seconds, by which a failover is delayed.
func adoptOrphans() (stop func(), err error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("adopt orphans: %w", err)
	}
	died, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(died, syscall.SIGCHLD)
	go func() {
		defer close(done)
		for range died {
			waitForOrphans()
		}
	}()
	return func() {
		_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) // from now on nobody here would wait for them
		signal.Stop(died)
		close(died)
		<-done
		waitForOrphans()
	}, nil
}

// waitForOrphans waits for dead children that another process has started. Those begin sessions of their own, unlike
// what this process starts and waits for itself.
func waitForOrphans() {
	session, _ := unix.Getsid(0) // never fails
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		var pid, parent, group, its int
		var state string
		text, _ := os.ReadFile(file)                    // empty if it has just ended
		_, fields, _ := strings.Cut(string(text), ") ") // after the name of the program; see proc(5)
		_, _ = fmt.Sscan(fields, &state, &parent, &group, &its)
		if state == "Z" && parent == os.Getpid() && its != session {
			_, _ = fmt.Sscan(string(text), &pid)
			_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
		}
	}
}
