package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"novelgate/internal/child"
	"novelgate/internal/pgserver"
)

// cluster has the running processes and database servers.
type cluster struct {
	commonFlags
	binary    string
	running   context.Context   //nolint:containedctx // its end stops the processes
	fail      func(cause error) // ends running; only the first cause counts
	processes sync.WaitGroup
	databases []*pgserver.Server // the primary, then the standby
}

// start starts each part once the parts that it needs are ready, and prints the addresses.
func (c *cluster) start() error {
	if err := c.startDatabases(); err != nil {
		return err
	}
	nats, err := c.startNATS()
	if err != nil {
		return err
	}
	origin, primary := "http://"+c.address(replicaPort), c.databases[0].URL()
	for i, name := range []string{"replica-1", "replica-2"} {
		if err := c.serve(name, replicaPort+2*i, nil, "--data-dir", c.path("service"), "--public-url", origin,
			"--database-url", primary, "--relay", nats); err != nil {
			return err
		}
	}
	apiKey, err := c.key("partner.key", "integration", "create", "demo", "--capability", "novels", "--capability", "posts")
	if err != nil {
		return err
	}
	if err := c.startMirror(origin); err != nil {
		return err
	}
	fmt.Printf(announcement, origin, c.address(replicaPort+1), c.address(replicaPort+2), c.address(replicaPort+3),
		c.address(mirrorPort), c.address(mirrorPort+1), nats, primary, c.databases[1].URL(), c.DataDir, apiKey)
	return nil
}

const announcement = `The cluster is running. Ctrl-C stops it.

replica 1   %[1]s    operations http://%[2]s
replica 2   http://%[3]s    operations http://%[4]s
mirror      http://%[5]s    operations http://%[6]s
NATS        %[7]s
primary     %[8]s
standby     %[9]s
data, logs  %[10]s
API key     %[11]s

Import a comment at replica 1, and read it at the mirror, http://%[5]s/novels/the-hunger-games/discussion:

` + `curl -i %[1]s/api/integrations/posts -H 'Authorization: Bearer %[11]s' -H 'Content-Type: application/json' -H 'Idempotency-Key: comment-1' -d '{"uuid": "reader-1", "username": "Ada", "novel": "The Hunger Games", "content": "Could not put it down!", "chapterNumber": 1}'
`

// startDatabases starts the primary, and a new standby, which is a copy of it.
func (c *cluster) startDatabases() error {
	if err := os.RemoveAll(c.path("standby")); err != nil {
		return fmt.Errorf("delete the earlier standby: %w", err)
	}
	primary, err := pgserver.Start(c.running, pgserver.Config{DataDir: c.path("primary")})
	if err != nil {
		return fmt.Errorf("primary: %w", err)
	}
	c.watch("primary", primary)
	standby, err := primary.StartStandby(c.running, pgserver.Config{DataDir: c.path("standby")})
	if err != nil {
		return fmt.Errorf("standby: %w", err)
	}
	c.watch("standby", standby)
	return nil
}

// watch makes the cluster fail when a server ends.
func (c *cluster) watch(name string, server *pgserver.Server) {
	c.databases = append(c.databases, server)
	go func() {
		<-server.Done()
		c.fail(fmt.Errorf("%s has ended; its log ends with:\n%s", name, lastLines(c.path(name+"/postgres.log"))))
	}()
}

// startNATS starts the servers and returns their addresses, separated by commas.
func (c *cluster) startNATS() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this program: %w", err)
	}
	addresses := make([]string, natsServers)
	for i := range addresses {
		if addresses[i], err = c.launch(natsReady, nil, fmt.Sprint("nats-", i+1), self, "nats", strconv.Itoa(i),
			"--data-dir", c.DataDir, "--port", strconv.Itoa(c.Port)); err != nil {
			return "", err
		}
	}
	return strings.Join(addresses, ","), nil
}

// startMirror starts the mirror with the API key of an auditor and the public key of the ledger.
func (c *cluster) startMirror(origin string) error {
	auditor, err := c.key("auditor.key", "auditor", "create", "Mirror")
	if err != nil {
		return err
	}
	var ledger struct{ VerifierKeys []string }
	for len(ledger.VerifierKeys) == 0 { // the ledger has not signed anything yet
		if err := c.command(&ledger, "ledger", "status"); err != nil {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
	if err := os.WriteFile(c.path("origin.pub"), []byte(strings.Join(ledger.VerifierKeys, "\n")), 0o600); err != nil {
		return fmt.Errorf("save the key of the ledger: %w", err)
	}
	return c.serve("mirror", mirrorPort, []string{"NOVELGATE_AUDITOR_KEY=" + auditor}, "--mirror", origin,
		"--origin-key", c.path("origin.pub"), "--data-dir", c.path("mirror"))
}

// serviceReady begins the line that novelgate serve prints when it accepts requests.
const serviceReady = "Operations (metrics, health, pprof) on "

// serve starts a service at a port, and its operations at the next one.
func (c *cluster) serve(name string, port int, env []string, flags ...string) error {
	_, err := c.launch(serviceReady, env, name, c.binary,
		slices.Concat([]string{"serve", "--listen", c.address(port), "--ops-listen", c.address(port + 1)}, flags)...)
	return err
}

// launch starts a process, waits for the line that begins with ready, and returns the rest of this line. The cluster
// fails when the process ends. The standard error of the process goes to a file.
func (c *cluster) launch(ready string, env []string, name, program string, args ...string) (string, error) {
	log, err := os.Create(c.path(name + ".log"))
	if err != nil {
		return "", fmt.Errorf("open log: %w", err)
	}
	defer log.Close() //nolint:errcheck // the process has its own copy
	cmd := child.Command(c.running, program, args...)
	cmd.Stderr, cmd.Env = log, append(os.Environ(), env...)
	process, err := child.Launch(cmd)
	if err != nil {
		return "", err
	}
	rest, err := process.Await(ready)
	c.processes.Go(func() {
		ended := process.Wait()
		c.fail(fmt.Errorf("%s has ended (%w); its log ends with:\n%s", name, ended, lastLines(log.Name())))
	})
	if err != nil {
		<-c.running.Done() // wait for c.fail above, which has the reason
	}
	return rest, err
}

func lastLines(path string) string {
	text, _ := os.ReadFile(path) // after an error the message has no lines
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-10):], []byte("\n")))
}

// key returns the API key in a file. If it cannot read the file, it creates a key with a command of novelgate, and
// writes the file.
func (c *cluster) key(file string, args ...string) (string, error) {
	text, err := os.ReadFile(c.path(file))
	if err == nil {
		return string(text), nil
	}
	var made struct{ APIKey string }
	if err := c.command(&made, args...); err != nil {
		return "", err
	}
	return made.APIKey, os.WriteFile(c.path(file), []byte(made.APIKey), 0o600)
}

// command runs a command of novelgate and decodes what it prints.
func (c *cluster) command(into any, args ...string) error {
	args = append(args, "--json", "--database-url", c.databases[0].URL())
	out, err := child.Command(c.running, c.binary, args...).Output()
	if err == nil {
		err = json.Unmarshal(out, into, json.MatchCaseInsensitiveNames(true))
	}
	if err != nil {
		return fmt.Errorf("novelgate %s: %w", args[0], err)
	}
	return nil
}

// stop stops the processes, then the standby, then the primary.
func (c *cluster) stop(ctx context.Context) (err error) {
	c.fail(nil)
	c.processes.Wait()
	for _, database := range slices.Backward(c.databases) {
		err = errors.Join(err, database.Stop(ctx))
	}
	return err
}
