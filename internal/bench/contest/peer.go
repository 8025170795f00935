package contest

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/internal/bench/crud"
)

// Peer is the database of a CRUD peer.
type Peer struct {
	arena         *Arena
	databaseURL   string
	integrationID uuid.UUID
	apiKey        string
}

// NewPeer makes the database. The name tells several peers apart.
func (a *Arena) NewPeer(ctx context.Context, name string) (*Peer, error) {
	url, err := a.createDatabase(ctx, name)
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("open pool: %w", err)
	}
	defer pool.Close()
	if err := crud.CreateTables(ctx, pool); err != nil {
		return nil, err
	}
	return &Peer{arena: a, databaseURL: url, integrationID: uuid.New(), apiKey: uuid.NewString()}, nil
}

const peerPostsSQL = `SELECT count(*) FROM posts`

// PeerReady is what the peer's process says before its address.
const PeerReady = "The peer is listening on "

// Start runs the peer with a pool of so many connections.
func (p *Peer) Start(ctx context.Context, pool int) (*Contestant, error) {
	c := &Contestant{Name: "CRUD, pool of " + strconv.Itoa(pool), apiKey: p.apiKey, storedSQL: peerPostsSQL}
	var err error
	c.child, err = launch(ctx, p.arena.self, "peer", "--database-url", p.databaseURL, "--key", p.apiKey,
		"--integration", p.integrationID.String(), "--pool", strconv.Itoa(pool))
	if err != nil {
		return nil, err
	}
	if err := p.begin(ctx, c); err != nil {
		return nil, errors.Join(err, c.Stop(context.WithoutCancel(ctx)))
	}
	return c, nil
}

func (p *Peer) begin(ctx context.Context, c *Contestant) error {
	url, err := c.child.await(PeerReady)
	if err != nil {
		return err
	}
	c.host = hostOf(url)
	return p.arena.meet(ctx, c, p.databaseURL)
}
