package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/internal/bench/contest"
	"novelgate/internal/bench/crud"
)

// PeerCommand is the process of the CRUD peer.
type PeerCommand struct {
	DatabaseURL string    `name:"database-url" required:""`
	Key         string    `required:"" help:"API key."`
	Integration uuid.UUID `required:"" help:"Integration behind the key."`
	Pool        int32     `required:"" help:"Database connections."`
}

// Run serves until a signal comes.
func (c *PeerCommand) Run(in *invocation) error {
	config, err := pgxpool.ParseConfig(c.DatabaseURL)
	if err != nil {
		return fmt.Errorf("parse database URL: %w", err)
	}
	config.MaxConns = c.Pool
	pool, err := pgxpool.NewWithConfig(in.ctx, config)
	if err != nil {
		return fmt.Errorf("open pool: %w", err)
	}
	defer pool.Close()
	listener, err := new(net.ListenConfig).Listen(in.ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	url := "http://" + listener.Addr().String()
	peer := &crud.Server{
		Pool: pool, Keys: map[[sha256.Size]byte]uuid.UUID{sha256.Sum256([]byte(c.Key)): c.Integration}, PublicURL: url,
		Now: in.now,
	}
	// The same time-outs as the service has: they cost time.
	server := &http.Server{
		Handler: peer.Handler(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 15 * time.Second, WriteTimeout: time.Minute,
		IdleTimeout: 2 * time.Minute,
	}
	go func() {
		<-in.ctx.Done()
		_ = server.Close() // nobody waits for an answer
	}()
	if err := in.print(contest.PeerReady + url + "\n"); err != nil {
		return err
	}
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}
