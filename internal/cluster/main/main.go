// Command main runs the highly available installation of deploy/cluster on this machine, to try it, until Ctrl-C:
//
//	make run-cluster                              # data in a temporary directory, which is deleted at the end
//	make run-cluster ARGS='--data-dir DIR'        # the next start finds what is stored there
//	make run-cluster ARGS='--network 127.0.2'     # addresses 127.0.2.1 to 127.0.2.13
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats-server/v2/server"

	"novelgate/internal/cluster"
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
		kong.Description("Runs a highly available Novelgate on one machine."), kong.BindTo(ctx, (*context.Context)(nil)))
	err := command.Run()
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

// natsCommand is a NATS server of the version that the relay needs, so that nobody has to install one.
type natsCommand struct {
	File string `arg:"" help:"Configuration file."`
}

// Run serves until a signal.
func (c *natsCommand) Run(ctx context.Context) error {
	options, err := server.ProcessConfigFile(c.File)
	if err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	options.NoSigs, options.Logtime = true, true
	s, err := server.NewServer(options)
	if err != nil {
		return fmt.Errorf("start NATS server: %w", err)
	}
	s.ConfigureLogger()
	s.Start()
	defer context.AfterFunc(ctx, s.Shutdown)()
	s.WaitForShutdown()
	if ctx.Err() == nil {
		return errors.New("the NATS server has ended by itself")
	}
	return nil
}

type runCommand struct {
	DataDir string `placeholder:"DIR" help:"Directory for all data (default: a temporary one, deleted at the end)."`
	Network string `default:"127.0.1" placeholder:"A.B.C" help:"First three numbers of the addresses (default: ${default})."`
	Binary  string `default:"bin/novelgate" type:"existingfile" placeholder:"FILE" help:"Program (default: ${default})."`
}

// startTimeout is enough for a slow machine: the start makes three databases.
const startTimeout = 3 * time.Minute

// Run runs the cluster until ctx ends.
func (c *runCommand) Run(ctx context.Context) (err error) {
	if err := cluster.CheckPorts(ctx, c.Network); err != nil {
		return err
	}
	dir, err := c.dir()
	if err != nil {
		return err
	}
	if c.DataDir == "" {
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	starting, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	fmt.Fprintln(os.Stderr, "cluster: starting, which takes about 20 s; logs are in", dir)
	config := cluster.Config{Dir: dir, Network: c.Network, Novelgate: c.Binary, NATS: []string{self, "nats"}}
	running, err := cluster.Start(starting, config)
	defer running.Stop()
	if err == nil {
		err = c.announce(ctx, running)
	}
	if err == nil {
		<-ctx.Done()
	}
	fmt.Fprintln(os.Stderr, "cluster: stopping all parts")
	if ctx.Err() != nil {
		return nil // the operator wants the end
	}
	return err
}

// dir makes the directory for data. The account of PostgreSQL must pass through it.
func (c *runCommand) dir() (dir string, err error) {
	if c.DataDir == "" {
		dir, err = os.MkdirTemp("", "novelgate-cluster-")
	} else if dir, err = filepath.Abs(c.DataDir); err == nil {
		err = os.MkdirAll(dir, 0o711) //nolint:gosec // see above
	}
	if err == nil {
		err = os.Chmod(dir, 0o711) //nolint:gosec // see above
	}
	if err != nil {
		return "", fmt.Errorf("make data directory: %w", err)
	}
	c.Binary, err = filepath.Abs(c.Binary)
	return dir, err
}

// announce makes a partner, unless an earlier run has, and prints what there is and what to try.
func (c *runCommand) announce(ctx context.Context, running *cluster.Cluster) error {
	file := filepath.Join(running.Dir, "partner.key")
	key, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		key, err = c.newPartner(ctx, running)
		err = errors.Join(err, os.WriteFile(file, key, 0o600))
	}
	if err != nil {
		return fmt.Errorf("make a partner: %w", err)
	}
	members, err := running.Members(ctx, cluster.N1)
	if err != nil {
		return err
	}
	fmt.Printf(announcement, running.URL(), running.Address(cluster.Proxy), running.Address(cluster.N1),
		running.Address(cluster.N2), running.Address(cluster.N3), running.Address(cluster.R1), running.Address(cluster.R2),
		running.Address(cluster.R3), running.NATSURL(), running.Dir, key, running.Password,
		cluster.Role(members, cluster.Leader))
	return nil
}

func (c *runCommand) newPartner(ctx context.Context, running *cluster.Cluster) ([]byte, error) {
	//nolint:gosec // our own program
	out, err := exec.CommandContext(ctx, c.Binary, "integration", "create", "demo", "--capability", "novels",
		"--capability", "posts", "--json", "--database-url", running.Postgres(cluster.Proxy)).Output()
	var made struct{ APIKey string }
	if err == nil {
		err = json.Unmarshal(out, &made, json.MatchCaseInsensitiveNames(true))
	}
	return []byte(made.APIKey), err
}

const announcement = `The cluster is running. Ctrl-C stops it.

service     %[1]s    (HAProxy; replicas http://%[6]s:8080 and http://%[7]s:8080, readers http://%[8]s:8080)
operations  http://%[6]s:8081  http://%[7]s:8081  http://%[8]s:8081
PostgreSQL  %[3]s  %[4]s  %[5]s    (port 5432; HAProxy: primary %[2]s:5000, standby %[2]s:5001; user postgres)
Patroni     http://%[3]s:8008  http://%[4]s:8008  http://%[5]s:8008    (user patroni)
NATS        %[9]s
data, logs  %[10]s
API key     %[11]s
password    %[12]s    (of postgres and patroni)

Who is the primary:

` + `watch -n 0.5 curl -s http://%[3]s:8008/cluster

Post a comment, and repeat it until it is acknowledged, as clients do:

` + `curl -i --retry 60 --retry-all-errors --retry-delay 1 %[1]s/api/integrations/posts -H 'Authorization: Bearer %[11]s' -H 'Content-Type: application/json' -H 'Idempotency-Key: comment-1' -d '{"uuid": "reader-1", "username": "Ada", "novel": "The Hunger Games", "content": "Could not put it down!", "chapterNumber": 1}'

Kill the PostgreSQL of %[13]s, the primary; or let another machine take over in an orderly way:

` + `kill -9 $(head -1 %[10]s/%[13]s/postgres/postmaster.pid)
` + `curl -u patroni:%[12]s http://%[3]s:8008/switchover -d '{"leader": "%[13]s"}'
`
