package contest

import (
	"context"
	"errors"
	"fmt"
)

// Host is where the contestant listens: host and port.
func (c *Contestant) Host() string { return c.host }

// DatabaseURL is where the service keeps its data.
func (s *Service) DatabaseURL() string { return s.databaseURL }

// StartReadPeer runs a handler on the database of the service that prints the first page of a discussion, by the slug
// of its novel.
func (s *Service) StartReadPeer(ctx context.Context, slug string) (*Contestant, error) {
	c := &Contestant{Name: "the statement, printed"}
	var err error
	c.child, err = launch(ctx, s.arena.self, "read-peer", "--database-url", s.databaseURL, "--slug", slug)
	if err != nil {
		return nil, err
	}
	url, err := c.child.await(PeerReady)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start the peer of readers: %w", err), c.Stop(context.WithoutCancel(ctx)))
	}
	c.host = hostOf(url)
	return c, nil
}
