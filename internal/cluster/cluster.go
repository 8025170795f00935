// Package cluster runs the highly available installation of deploy/cluster on one machine: each of its machines is an
// address of the loopback network. Its processes are restarted when they end, as systemd does.
package cluster

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"novelgate/deploy"
)

// The machines. On N1, N2 and N3 run etcd, PostgreSQL and NATS.
const (
	N1    = "n1"
	N2    = "n2"
	N3    = "n3"
	Proxy = "proxy" // HAProxy
	R1    = "r1"    // a replica of the service
	R2    = "r2"    // likewise
	R3    = "r3"    // serves readers
)

// Databases are the machines with a PostgreSQL.
var Databases = []string{N1, N2, N3}

// hosts are the last numbers of the machines' addresses.
var hosts = map[string]int{N1: 1, N2: 2, N3: 3, Proxy: 10, R1: 11, R2: 12, R3: 13}

// Config says where a cluster runs, and what with. All fields are needed, unless the comment says otherwise.
type Config struct {
	Dir       string   // for data and logs, a directory of each machine; readable for the account of PostgreSQL
	Network   string   // the first three numbers of all addresses, such as 127.0.1
	Novelgate string   // the program
	NATS      []string // a command that runs a NATS server, without the name of its configuration file

	// Env returns more variables of the environment for a process, and HAProxy has other values for the placeholders in
	// its file. Tests cut machines off by these. Optional.
	Env     func(machine, name string) []string
	HAProxy map[string]string

	// Log gets a line when a process ends. Optional.
	Log func(line string)
}

// Cluster is a running cluster.
type Cluster struct {
	Config

	// Password is that of Patroni's accounts, with which operators connect and switch over.
	Password string

	values   map[string]string // of placeholders, except those of a machine
	programs programs
	parts    []*Part
	running  sync.WaitGroup
	orphans  func() // waits no longer for adopted processes; nil before the start
}

// Start starts all parts, and returns when commands and readers are served and a standby is synchronous. Call Stop also
// after an error. The end of ctx ends only the wait.
func Start(ctx context.Context, config Config) (*Cluster, error) {
	c := &Cluster{Config: config, Password: rand.Text()}
	if c.Log == nil {
		c.Log = func(string) {}
	}
	var err error
	if c.programs, err = findPrograms(ctx); err != nil {
		return c, err
	}
	// The password of an earlier run is in its database.
	file := filepath.Join(c.Dir, "password")
	switch text, err := os.ReadFile(file); {
	case err == nil:
		c.Password = string(text)
	case errors.Is(err, os.ErrNotExist):
		if err := os.WriteFile(file, []byte(c.Password), 0o600); err != nil { //nolint:gosec // the caller's directory
			return c, fmt.Errorf("save the password: %w", err)
		}
	default:
		return c, fmt.Errorf("read the password: %w", err)
	}
	c.values = map[string]string{
		"POSTGRES_BIN": c.programs.postgres, "NETWORK": "127.0.0.0/8", "SIGNER": filepath.Join(c.Dir, "signer"),
		"PUBLIC_URL": c.URL(), "PATRONI_PASSWORD": c.Password, "SERVICE_PASSWORD": c.Password,
	}
	for machine := range hosts {
		c.values[strings.ToUpper(machine)] = c.Address(machine)
	}
	if c.orphans, err = adoptOrphans(); err != nil {
		return c, err
	}
	if err := c.start(); err != nil { //nolint:contextcheck // parts run until Stop
		return c, err
	}
	return c, c.awaitHealthy(ctx)
}

// start starts all parts. Those that need others fail and are restarted until these are there.
func (c *Cluster) start() error {
	for _, machine := range Databases {
		nats := slices.Clone(c.NATS)
		if err := errors.Join(
			c.launch(machine, "etcd", "etcd.env", c.programs.etcd),
			c.launch(machine, "nats", "nats.conf", nats[0], append(nats[1:], c.file(machine, "nats.conf"))...),
			c.launch(machine, "patroni", "patroni.yml", c.programs.patroni, c.file(machine, "patroni.yml")),
		); err != nil {
			return err
		}
	}
	return errors.Join(
		c.launch(Proxy, "haproxy", "haproxy.cfg", c.programs.haproxy, "-db", "-f", c.file(Proxy, "haproxy.cfg")),
		c.launch(R1, "novelgate", "novelgate.env", c.Novelgate, "serve"),
		c.launch(R2, "novelgate", "novelgate.env", c.Novelgate, "serve"),
		c.launch(R3, "novelgate", "readers.env", c.Novelgate, "serve"),
	)
}

// Address returns the address of a machine.
func (c *Cluster) Address(machine string) string { return fmt.Sprint(c.Network, ".", hosts[machine]) }

// URL returns the address of the service behind HAProxy.
func (c *Cluster) URL() string { return "http://" + c.Address(Proxy) + ":8080" }

// Postgres returns the URL of the database on a machine for Patroni's superuser; on Proxy, that of the primary.
func (c *Cluster) Postgres(machine string) string {
	port := "5432"
	if machine == Proxy {
		port = "5000"
	}
	return fmt.Sprintf("postgres://postgres:%s@%s:%s/novelgate?connect_timeout=2", c.Password, c.Address(machine), port)
}

// NATSURL returns the addresses of the NATS servers.
func (c *Cluster) NATSURL() string {
	urls := make([]string, len(Databases))
	for i, machine := range Databases {
		urls[i] = "nats://" + c.Address(machine) + ":4222"
	}
	return strings.Join(urls, ",")
}

func (c *Cluster) file(machine, name string) string { return filepath.Join(c.Dir, machine, name) }

// PostgresDir returns the data directory of the PostgreSQL of a machine.
func (c *Cluster) PostgresDir(machine string) string { return c.file(machine, "postgres") }

// render returns a file of deploy/cluster with values in place of its placeholders.
func render(file string, value func(name string) string) (string, error) {
	template, err := deploy.Cluster.ReadFile("cluster/" + file)
	if err != nil {
		return "", fmt.Errorf("read configuration: %w", err)
	}
	var unknown []string
	content := os.Expand(string(template), func(name string) string {
		found := value(name)
		if found == "" {
			unknown = append(unknown, name)
		}
		return found
	})
	if len(unknown) > 0 {
		return "", fmt.Errorf("%s has unknown placeholders: %v", file, unknown)
	}
	return content, nil
}

// launch writes the file of a part, and starts the part: its environment are the lines of a file that ends in .env.
func (c *Cluster) launch(machine, name, file, program string, args ...string) error {
	values := map[string]string{"MACHINE": machine, "HOST": c.Address(machine), "DATA": filepath.Join(c.Dir, machine)}
	content, err := render(file, func(name string) string {
		if seen := c.HAProxy[name]; seen != "" && machine == Proxy {
			return seen
		}
		return cmp.Or(values[name], c.values[name])
	})
	if err != nil {
		return err
	}
	part := &Part{cluster: c, machine: machine, Name: machine + "-" + name, program: program, args: args, env: baseEnv()}
	if name == "patroni" {
		part.as = c.programs.as
	}
	if c.Env != nil {
		part.env = append(part.env, c.Env(machine, name)...)
	}
	if strings.HasSuffix(file, ".env") {
		for line := range strings.Lines(content) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				part.env = append(part.env, line)
			}
		}
	}
	dir := filepath.Join(c.Dir, machine)
	if err := errors.Join(
		os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600),
	); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	if part.as != nil { // the others on this machine are root's, who may write everywhere
		if err := errors.Join(os.Chown(dir, int(part.as.Uid), int(part.as.Gid)),
			os.Chown(filepath.Join(dir, file), int(part.as.Uid), int(part.as.Gid))); err != nil {
			return fmt.Errorf("hand over to the user of PostgreSQL: %w", err)
		}
	}
	c.parts = append(c.parts, part)
	part.Start()
	return nil
}

// Part returns a process by machine and name.
func (c *Cluster) Part(machine, name string) *Part {
	i := slices.IndexFunc(c.parts, func(p *Part) bool { return p.Name == machine+"-"+name })
	return c.parts[i]
}

// Stop stops all parts: those first that need others.
func (c *Cluster) Stop() {
	for _, name := range []string{"novelgate", "haproxy", "patroni", "nats", "etcd"} {
		var stopping sync.WaitGroup
		for _, part := range c.parts {
			if strings.HasSuffix(part.Name, "-"+name) {
				stopping.Go(part.Stop)
			}
		}
		stopping.Wait()
	}
	for _, machine := range Databases {
		if pid := c.Postmaster(machine); pid != 0 { // Patroni was killed, or did not stop it in time
			_ = syscall.Kill(pid, syscall.SIGQUIT) // it has ended then
		}
	}
	c.running.Wait()
	if c.orphans != nil {
		c.orphans()
	}
}

// Postmaster returns the process id of the PostgreSQL on a machine, 0 if none runs.
func (c *Cluster) Postmaster(machine string) (pid int) {
	content, _ := os.ReadFile(filepath.Join(c.PostgresDir(machine), "postmaster.pid")) // without it none runs
	_, _ = fmt.Sscan(string(content), &pid)
	// After a kill another process may have got the number.
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || !bytes.Contains(line, []byte(c.PostgresDir(machine))) {
		return 0
	}
	return pid
}

// baseEnv is the environment of all parts, without variables that change what PostgreSQL, etcd or the service do.
func baseEnv() []string {
	return []string{"LC_ALL=C.UTF-8", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
}

// CheckPorts fails if an address of a cluster is taken.
func CheckPorts(ctx context.Context, network string) error {
	ports := map[string][]int{
		Proxy: {5000, 5001, 8080}, R1: {8080, 8081}, R2: {8080, 8081}, R3: {8080, 8081},
	}
	for _, machine := range Databases {
		ports[machine] = []int{2379, 2380, 4222, 5432, 6222, 8008}
	}
	for machine, all := range ports {
		for _, port := range all {
			listener, err := new(net.ListenConfig).Listen(ctx, "tcp", fmt.Sprintf("%s.%d:%d", network, hosts[machine], port))
			if err != nil {
				return fmt.Errorf("an address of the cluster is taken, see --network: %w", err)
			}
			_ = listener.Close() // nobody has connected
		}
	}
	return nil
}
