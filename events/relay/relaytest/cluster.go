// Package relaytest runs NATS servers with JetStream inside a test process.
package relaytest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"novelgate/internal/testdb"
)

// Options returns the options of servers n0, n1, …: one server for each port, at which it serves clients. Several
// servers form a cluster; each listens at its port of routes for the others. Each stores its data in a directory below
// dir. They log nothing and handle no signals.
func Options(dir string, ports, routes []int) []*server.Options {
	all := make([]*server.Options, len(ports))
	for i, port := range ports {
		name := fmt.Sprint("n", i)
		all[i] = &server.Options{
			ServerName: name, Host: "127.0.0.1", Port: port, NoLog: true, NoSigs: true,
			JetStream: true, StoreDir: filepath.Join(dir, name), JetStreamMaxMemory: 64 << 20, JetStreamMaxStore: 8 << 30,
		}
		if len(ports) == 1 {
			continue
		}
		all[i].Cluster = server.ClusterOpts{Name: "novelgate", Host: "127.0.0.1", Port: routes[i]}
		for j, route := range routes {
			if j != i { // a server derives the size of the cluster from the number of its routes
				all[i].Routes = append(all[i].Routes, &url.URL{Scheme: "nats", Host: fmt.Sprint("127.0.0.1:", route)})
			}
		}
	}
	return all
}

// Serve starts a server with the data in its directory, and waits until it accepts connections.
func Serve(options *server.Options) (*server.Server, error) {
	s, err := server.NewServer(options.Clone())
	if err != nil {
		return nil, fmt.Errorf("start NATS server: %w", err)
	}
	if !options.NoLog {
		s.ConfigureLogger()
	}
	s.Start()
	if !s.ReadyForConnections(testdb.Patience) {
		return nil, errors.New("the NATS server does not accept connections")
	}
	return s, nil
}

// Cluster is NATS servers on loopback addresses. Each has a directory of its own.
type Cluster struct {
	t       testing.TB
	options []*server.Options
	servers []*server.Server // nil: stopped
}

// New starts a cluster of n servers, or one server without a cluster. They stop when the test ends. change adapts the
// options of each server.
func New(t testing.TB, n int, change ...func(*server.Options)) *Cluster {
	t.Helper()
	c := &Cluster{t: t, servers: make([]*server.Server, n)}
	ports := make([]int, 2*n)
	for i := range ports {
		ports[i] = testdb.ReservePort(t)
	}
	c.options = Options(t.TempDir(), ports[:n], ports[n:])
	for _, options := range c.options {
		for _, adapt := range change {
			adapt(options)
		}
	}
	t.Cleanup(c.StopAll)
	for i := range n {
		c.Start(i)
	}
	testdb.Eventually(t, "the NATS servers are ready", c.ready)
	return c
}

// Start starts server i with the data that it has stored.
func (c *Cluster) Start(i int) {
	c.t.Helper()
	var err error
	if c.servers[i], err = Serve(c.options[i]); err != nil {
		c.t.Fatalf("server %d: %v", i, err)
	}
}

// Stop stops server i.
func (c *Cluster) Stop(i int) {
	if c.servers[i] != nil {
		c.servers[i].Shutdown()
		c.servers[i].WaitForShutdown()
		c.servers[i] = nil
	}
}

// StopAll stops all servers.
func (c *Cluster) StopAll() {
	for i := range c.servers {
		c.Stop(i)
	}
}

// ready reports whether the servers answer requests of JetStream as one cluster.
func (c *Cluster) ready() bool {
	if len(c.servers) == 1 {
		return c.servers[0].JetStreamEnabled()
	}
	return slices.ContainsFunc(c.servers, func(s *server.Server) bool {
		return s.JetStreamIsLeader() && len(s.JetStreamClusterPeers()) == len(c.servers)
	})
}

// URL returns the addresses of all servers.
func (c *Cluster) URL() string {
	addresses := make([]string, len(c.options))
	for i, o := range c.options {
		addresses[i] = fmt.Sprintf("nats://127.0.0.1:%d", o.Port)
	}
	return strings.Join(addresses, ",")
}

// StoreDir returns the directory of server i.
func (c *Cluster) StoreDir(i int) string { return c.options[i].StoreDir }

// Holding returns the files below a directory that contain a text. The server may remove files meanwhile.
func Holding(t testing.TB, dir, text string) (found []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			var content []byte
			content, err = os.ReadFile(path) //nolint:gosec // a directory of the test
			if bytes.Contains(content, []byte(text)) {
				found = append(found, path)
			}
		}
		if errors.Is(err, fs.ErrNotExist) && path != dir {
			return nil
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// requestTimeout limits a request to NATS that is not repeated.
const requestTimeout = time.Minute

// Connect returns a connection that keeps trying to connect until the test ends.
func (c *Cluster) Connect(more ...nats.Option) (*nats.Conn, jetstream.JetStream) {
	c.t.Helper()
	conn, err := nats.Connect(c.URL(), append(more, nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1),
		nats.ReconnectWait(20*time.Millisecond))...)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(conn.Close)
	js := testdb.Must(jetstream.New(conn, jetstream.WithDefaultTimeout(requestTimeout)))(c.t)
	return conn, js
}

// Leader returns the number of the server that leads a stream; -1 if none does.
func (c *Cluster) Leader(ctx context.Context, js jetstream.JetStream, stream string) int {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	found, err := js.Stream(ctx, stream)
	if err != nil || found.CachedInfo().Cluster == nil {
		return -1
	}
	for i, o := range c.options {
		if o.ServerName == found.CachedInfo().Cluster.Leader {
			return i
		}
	}
	return -1
}
