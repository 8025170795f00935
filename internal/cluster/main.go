// Command cluster runs all parts of a large installation on one machine, to try them, until Ctrl-C:
//
//	make run-cluster                                # data in a temporary directory, which is deleted at the end
//	make run-cluster ARGS='--data-dir DIR'          # the next start finds what is stored there
//	make run-cluster ARGS='--port 9000'             # the ports are 9000 to 9011
//
// The parts are a primary PostgreSQL and a hot standby, three NATS servers, two replicas of the service (which relay
// to NATS), and a mirror with a PostgreSQL of its own. Each is a process. When one of them
// ends, the command stops the others and exits with code 1; only the PostgreSQL of the mirror is restarted.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"novelgate/internal/natsserver"
)

type program struct {
	Run  runCommand  `cmd:"" default:"withargs" help:"Run the cluster."`
	NATS natsCommand `cmd:"" hidden:"" help:"Be a NATS server of the cluster."`
}

func main() {
	// SIGPIPE comes when the reader of the output has ended, as in `| head`.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP,
		syscall.SIGPIPE)
	command := kong.Parse(&program{}, kong.Name("cluster"), kong.UsageOnError(),
		kong.Description("Runs Novelgate as a cluster on one machine."), kong.BindTo(ctx, (*context.Context)(nil)))
	err := command.Run()
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

// commonFlags are the same for the cluster and for its NATS servers.
type commonFlags struct {
	Port    int    `default:"8100" placeholder:"N" help:"First of twelve ports on 127.0.0.1 (default: ${default})."`
	DataDir string `placeholder:"DIR" help:"Directory for all data (default: a temporary one, deleted at the end)."`
}

// Ports relative to the first one. A service has two ports: one for its users, and the next one for operators.
const (
	replicaPort = 0 // two ports for each of two replicas
	mirrorPort  = 4
	natsPort    = 6 // one port for the clients of each NATS server
	routePort   = 9 // one port of each NATS server for the others
	portCount   = 12
	natsServers = 3
)

func (f *commonFlags) address(port int) string { return fmt.Sprint("127.0.0.1:", f.Port+port) }

func (f *commonFlags) path(name string) string { return filepath.Join(f.DataDir, name) }

// natsCommand runs one NATS server inside this program, so that nobody has to install NATS.
type natsCommand struct {
	commonFlags
	Number int `arg:"" help:"Number of this server: 0, 1 or 2."`
}

// natsReady begins the line that a NATS server prints when it accepts connections. Its address follows.
const natsReady = "NATS is listening on "

// Run serves until a signal.
func (c *natsCommand) Run(ctx context.Context) error {
	var ports, routes []int
	for i := range natsServers {
		ports, routes = append(ports, c.Port+natsPort+i), append(routes, c.Port+routePort+i)
	}
	options := natsserver.Options(c.path("nats"), ports, routes)[c.Number]
	options.NoLog, options.Logtime = false, true
	return natsserver.Run(ctx, options, func() { fmt.Println(natsReady + "nats://" + c.address(natsPort+c.Number)) })
}

type runCommand struct {
	commonFlags
	Binary string `default:"bin/novelgate" type:"existingfile" placeholder:"FILE" help:"Program (default: ${default})."`
}

// Run runs the cluster until ctx or a part ends.
func (c *runCommand) Run(ctx context.Context) (err error) {
	if err := c.checkPorts(ctx); err != nil {
		return err
	}
	if c.DataDir == "" {
		if c.DataDir, err = os.MkdirTemp("", "novelgate-cluster-"); err != nil {
			return fmt.Errorf("make data directory: %w", err)
		}
		defer func() { err = errors.Join(err, c.removeData()) }()
	}
	err = os.MkdirAll(c.DataDir, 0o711) //nolint:gosec // the account of PostgreSQL must pass
	if err == nil && os.Geteuid() == 0 {
		err = os.Chmod(c.DataDir, 0o711) //nolint:gosec // likewise
	}
	if err != nil {
		return fmt.Errorf("prepare data directory: %w", err)
	}
	running, fail := context.WithCancelCause(ctx)
	parts := &cluster{commonFlags: c.commonFlags, binary: c.Binary, running: running, fail: fail}
	if err = parts.start(); err == nil {
		<-running.Done()
	}
	if cause := context.Cause(running); cause != nil {
		err = cause // the end of the first part is the reason of all later errors
	}
	if ctx.Err() != nil {
		err = nil // the operator wants the end
	}
	fmt.Fprintln(os.Stderr, "cluster: stopping all parts")
	return errors.Join(err, parts.stop(context.WithoutCancel(ctx)))
}

// checkPorts fails if a port is taken.
func (c *runCommand) checkPorts(ctx context.Context) error {
	for port := range portCount {
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", c.address(port))
		if err != nil {
			return fmt.Errorf("the cluster needs the ports %d to %d, see --port: %w", c.Port, c.Port+portCount-1, err)
		}
		_ = listener.Close() // nobody has connected
	}
	return nil
}

// removeData deletes the data directory. It retries for ten seconds, because the PostgreSQL of a killed mirror may
// still be stopping there.
func (c *runCommand) removeData() (err error) {
	for range 100 {
		if err = os.RemoveAll(c.DataDir); err == nil {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return fmt.Errorf("delete the data: %w", err)
}
