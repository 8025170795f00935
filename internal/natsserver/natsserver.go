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

// Options are those of servers n0, n1, … with these ports for clients. With several servers, which are then a cluster,
// routes are the ports among them. Each has a directory below dir. They log nothing, and leave signals to the program.
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
			if j != i { // from the number of routes a server tells the size of the cluster
				all[i].Routes = append(all[i].Routes, &url.URL{Scheme: "nats", Host: fmt.Sprint("127.0.0.1:", route)})
			}
		}
	}
	return all
}

// patience is how long the start of a server may take on a busy machine.
const patience = 2 * time.Minute

// Start starts a server and waits until it accepts connections. A server finds what it has stored.
func Start(options *server.Options) (*server.Server, error) {
	s, err := server.NewServer(options.Clone())
	if err != nil {
		return nil, fmt.Errorf("start NATS server: %w", err)
	}
	if !options.NoLog {
		s.ConfigureLogger()
	}
	s.Start()
	if !s.ReadyForConnections(patience) {
		Stop(s)
		return nil, errors.New("the NATS server does not accept connections")
	}
	return s, nil
}

// Stop stops a server and waits until it has ended.
func Stop(s *server.Server) {
	s.Shutdown()
	s.WaitForShutdown()
}

// Run starts a server, calls ready, and stops it when ctx ends. It fails if the server ends before that.
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
