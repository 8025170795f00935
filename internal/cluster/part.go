package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"novelgate/internal/pgserver"
	"novelgate/internal/system"
)

const (
	restartDelay = time.Second      // RestartSec of systemd
	stopTimeout  = 30 * time.Second // then the process is killed
)

// Part is a process of the cluster. It is started again when it ends.
type Part struct {
	Name string // machine and program, such as n1-etcd

	cluster *Cluster
	machine string
	program string
	args    []string
	env     []string
	as      *syscall.Credential

	mu      sync.Mutex
	process *system.Child
	stop    context.CancelFunc
	stopped chan struct{} // closed when the part has ended and is not started again
}

// Start starts a part that is not running.
func (p *Part) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	p.stop, p.stopped = cancel, make(chan struct{})
	p.cluster.running.Go(func() {
		defer close(p.stopped)
		for ctx.Err() == nil {
			err := p.run(ctx)
			if ctx.Err() == nil {
				p.cluster.Log(fmt.Sprintf("%s has ended and is started again: %v", p.Name, err))
			}
			select {
			case <-ctx.Done():
			case <-time.After(restartDelay):
			}
		}
	})
}

// run runs the process once. The end of ctx stops it. On Linux, it gets SIGTERM when this process dies.
func (p *Part) run(ctx context.Context) error {
	log, err := os.OpenFile(p.LogFile(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	defer log.Close()                         //nolint:errcheck // the process has its own copy
	cmd := exec.Command(p.program, p.args...) //nolint:gosec,noctx // stopped below, in two steps
	cmd.Dir, cmd.Env = filepath.Join(p.cluster.Dir, p.machine), p.env
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = system.ChildAttributes(syscall.SIGTERM)
	cmd.SysProcAttr.Credential = p.as
	process, err := system.StartChild(cmd)
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.process = process
	p.mu.Unlock()
	select {
	case <-process.Done():
		return process.Wait()
	case <-ctx.Done():
	}
	process.Signal(syscall.SIGTERM)
	select {
	case <-process.Done():
	case <-time.After(stopTimeout):
		process.Signal(syscall.SIGKILL)
		<-process.Done()
	}
	return nil
}

// Stop stops the process, and does not start it again.
func (p *Part) Stop() {
	p.stop()
	<-p.stopped
}

// PID returns the id of the process, also of one that has ended; 0 before the first.
func (p *Part) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.process == nil {
		return 0
	}
	return p.process.PID()
}

// LogFile returns the file with the output of the process.
func (p *Part) LogFile() string { return filepath.Join(p.cluster.Dir, p.Name+".log") }

// programs are the programs of others.
type programs struct {
	etcd, patroni, haproxy string
	postgres               string // the directory
	as                     *syscall.Credential
}

// findPrograms finds the programs of others. The error says how to install what is missing.
func findPrograms(ctx context.Context) (found programs, err error) {
	look := func(name string) string {
		path, lookErr := exec.LookPath(name)
		if lookErr != nil {
			path, lookErr = exec.LookPath("/usr/sbin/" + name) // not on the PATH of ordinary users
		}
		err = errors.Join(err, lookErr)
		return path
	}
	found.etcd, found.patroni, found.haproxy = look("etcd"), look("patroni"), look("haproxy")
	out, importErr := exec.CommandContext(ctx, "/usr/bin/python3", "-c", "import etcd").CombinedOutput()
	if importErr != nil {
		err = errors.Join(err, fmt.Errorf("python3 -c 'import etcd': %s", lastLine(out)))
	}
	var postgresErr error
	found.postgres, found.as, postgresErr = pgserver.Programs(ctx, "pg_basebackup", "pg_rewind", "psql")
	if err = errors.Join(err, postgresErr); err != nil {
		err = fmt.Errorf("%w\nInstall what is missing with: sudo apt-get install -y "+
			"postgresql patroni python3-etcd etcd-server haproxy", err)
	}
	return found, err
}

func lastLine(text []byte) string {
	trimmed := strings.TrimSpace(string(text))
	return trimmed[strings.LastIndexByte(trimmed, '\n')+1:]
}
