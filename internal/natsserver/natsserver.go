// Package natsserver runs NATS servers with JetStream on loopback addresses, for tests and for a cluster on one
// machine.
package natsserver

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"time"

	"github.com/nats-io/nats-server/v2/server"
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

// startTimeout limits the start of a server. It is long enough for a busy machine.
const startTimeout = 2 * time.Minute

// Start starts a server with the data in its directory, and waits until it accepts connections.
func Start(options *server.Options) (*server.Server, error) {
	s, err := server.NewServer(options.Clone())
	if err != nil {
		return nil, fmt.Errorf("start NATS server: %w", err)
	}
	if !options.NoLog {
		s.ConfigureLogger()
	}
	s.Start()
	if !s.ReadyForConnections(startTimeout) {
		Stop(s)
		return nil, fmt.Errorf("the NATS server does not accept connections within %v", startTimeout)
	}
	return s, nil
}

// Stop stops a server and waits until it has ended.
func Stop(s *server.Server) {
	s.Shutdown()
	s.WaitForShutdown()
}

// Run starts a server, calls ready, and stops the server when ctx ends. It fails if the server ends before ctx.
func Run(ctx context.Context, options *server.Options, ready func()) error {
	s, err := Start(options)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, s.Shutdown)()
	ready()
	s.WaitForShutdown()
	if ctx.Err() == nil {
		return errors.New("the NATS server has ended by itself")
	}
	return nil
}
