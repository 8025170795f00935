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
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"novelgate/internal/testdb"
)

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
	dir, routes := t.TempDir(), make([]*url.URL, n)
	for i := range routes {
		routes[i] = &url.URL{Scheme: "nats", Host: fmt.Sprint("127.0.0.1:", testdb.ReservePort(t))}
	}
	for i := range n {
		name := fmt.Sprint("n", i)
		options := &server.Options{
			ServerName: name, Host: "127.0.0.1", Port: testdb.ReservePort(t), NoLog: true, NoSigs: true,
			JetStream: true, StoreDir: filepath.Join(dir, name), JetStreamMaxMemory: 64 << 20, JetStreamMaxStore: 8 << 30,
		}
		if n > 1 {
			port, err := strconv.Atoi(routes[i].Port())
			testdb.NoError(t, err)
			options.Cluster = server.ClusterOpts{Name: "novelgate", Host: "127.0.0.1", Port: port}
			// A server derives the size of the cluster from the number of its routes.
			options.Routes = append(slices.Clone(routes[:i]), routes[i+1:]...)
		}
		for _, adapt := range change {
			adapt(options)
		}
		c.options = append(c.options, options)
	}
	t.Cleanup(c.StopAll)
	for i := range n {
		c.Start(i)
	}
	testdb.Eventually(t, "the NATS servers are ready", c.ready)
	return c
}

// Start starts server i with the data that it has stored, and waits until it accepts connections.
func (c *Cluster) Start(i int) {
	c.t.Helper()
	s, err := server.NewServer(c.options[i].Clone())
	if err != nil {
		c.t.Fatalf("server %d: %v", i, err)
	}
	s.Start()
	if !s.ReadyForConnections(testdb.Patience) {
		c.t.Fatalf("server %d does not accept connections", i)
	}
	c.servers[i] = s
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
