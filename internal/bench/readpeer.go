package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"novelgate/internal/bench/contest"
	"novelgate/internal/bench/readers"
	"novelgate/internal/database"
)

// ReadPeerCommand is the process of the handler that readers are compared with.
type ReadPeerCommand struct {
	DatabaseURL string `name:"database-url" required:""`
	Slug        string `required:""`
}

// Run serves until a signal comes, over the same pool as the service has.
func (c *ReadPeerCommand) Run(in *invocation) error {
	pools, err := database.Open(in.ctx, c.DatabaseURL, 1)
	if err != nil {
		return fmt.Errorf("open pools: %w", err)
	}
	defer pools.Close()
	listener, err := new(net.ListenConfig).Listen(in.ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	server := &http.Server{
		Handler: readers.Peer(pools.Read, c.Slug), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 15 * time.Second,
		WriteTimeout: time.Minute, IdleTimeout: 2 * time.Minute,
	}
	go func() {
		<-in.ctx.Done()
		_ = server.Close() // nobody waits for an answer
	}()
	if err := in.print(contest.PeerReady + "http://" + listener.Addr().String() + "\n"); err != nil {
		return err
	}
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}
