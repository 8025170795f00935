package contest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"
)

// Service is the database of a novelgate with one integration in it.
type Service struct {
	arena         *Arena
	databaseURL   string
	integrationID uuid.UUID
	apiKey        string
}

const unlimited = "100000000" // per minute

// NewService makes a database of some name, and the integration in it.
func (a *Arena) NewService(ctx context.Context, name string) (*Service, error) {
	url, err := a.createDatabase(ctx, name)
	if err != nil {
		return nil, err
	}
	migrate := command(ctx, a.config.Binary, "migrate", "--database-url", url, "--json")
	if _, err := migrate.Output(); err != nil {
		return nil, fmt.Errorf("novelgate migrate: %w", err)
	}
	create := command(ctx, a.config.Binary, "integration", "create", "bench", "--database-url", url, "--json",
		"--posts-per-minute", unlimited, "--novels-per-minute", unlimited, "--capability", "novels", "--capability", "posts")
	out, err := create.Output()
	if err != nil {
		return nil, fmt.Errorf("novelgate integration create: %w", err)
	}
	var created struct {
		IntegrationID uuid.UUID `json:"integrationId"`
		APIKey        string    `json:"apiKey"`
	}
	if err := json.Unmarshal(out, &created); err != nil {
		return nil, fmt.Errorf("decode what integration create says: %w", err)
	}
	return &Service{arena: a, databaseURL: url, integrationID: created.IntegrationID, apiKey: created.APIKey}, nil
}

const servicePostsSQL = `SELECT count(*) FROM events WHERE event_type = 'post.imported.v1'`

const serviceCaughtUpSQL = `SELECT NOT EXISTS (
    SELECT FROM projections p
    WHERE (p.transaction_id, p.position) < (SELECT e.transaction_id, e.position FROM events e
        ORDER BY e.transaction_id DESC, e.position DESC LIMIT 1)
)`

// Start runs the service on its database, with further flags of `novelgate serve`. When paused, its asynchronous
// projections do not run.
func (s *Service) Start(ctx context.Context, paused bool, flags ...string) (*Contestant, error) {
	args := append([]string{
		"serve", "--database-url", s.databaseURL, "--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0", "--log-level",
		"warn",
		"--data-dir", s.arena.dir,
	}, flags...)
	c := &Contestant{Name: "novelgate", apiKey: s.apiKey, storedSQL: servicePostsSQL, caughtUpSQL: serviceCaughtUpSQL}
	if paused {
		args = append(args, "--pause-projections")
		c.caughtUpSQL = ""
	}
	var err error
	if c.child, err = launch(ctx, s.arena.config.Binary, args...); err != nil {
		return nil, err
	}
	if err := s.begin(ctx, c); err != nil {
		return nil, errors.Join(err, c.Stop(context.WithoutCancel(ctx)))
	}
	return c, nil
}

func (s *Service) begin(ctx context.Context, c *Contestant) error {
	url, err := c.child.await("Novelgate is listening on ")
	if err != nil {
		return err
	}
	c.host = hostOf(url)
	if c.OpsURL, err = c.child.await("Operations (metrics, health, pprof) on "); err != nil {
		return err
	}
	return s.arena.meet(ctx, c, s.databaseURL)
}

// APIKey is that of the integration.
func (s *Service) APIKey() string { return s.apiKey }

// IntegrationID is the integration whose key APIKey is.
func (s *Service) IntegrationID() uuid.UUID { return s.integrationID }

// Novelgate runs the command line of novelgate on the database.
func (s *Service) Novelgate(ctx context.Context, args ...string) error {
	if _, err := command(ctx, s.arena.config.Binary,
		append(args, "--database-url", s.databaseURL)...).Output(); err != nil {
		return fmt.Errorf("run novelgate: %w", err)
	}
	return nil
}
