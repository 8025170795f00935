package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/internal/bench/catalogue"
	"novelgate/internal/bench/digests"
)

// DigestsCommand is `bench digests`.
type DigestsCommand struct {
	CSV         string `name:"csv" type:"existingfile" placeholder:"FILE" help:"CSV file of novels, as for catalogue: fill a service of its own with it, with comments and with what staff do."`
	Comments    int    `default:"200000" help:"How many comments to import."`
	Connections int    `default:"16" help:"Requests in flight at a time."`
	DatabaseURL string `name:"database-url" placeholder:"URL" help:"Without --csv: compare the tables of this database, to which nobody may write meanwhile. Its projections are rebuilt."`
	DataDir     string `name:"data-dir" type:"existingdir" placeholder:"DIR" help:"Directory, on a disk, for the data of the database server; what is made there is deleted afterwards (default: the one for temporary files)."`
	Binary      string `type:"existingfile" placeholder:"FILE" help:"The novelgate to fill (default: built from this module)."`
}

// Validate wants one of the two; kong calls it.
func (c *DigestsCommand) Validate() error {
	if (c.CSV == "") == (c.DatabaseURL == "") {
		return errors.New("give either --csv or --database-url")
	}
	return nil
}

// Run fails when the tables differ in any row.
func (c *DigestsCommand) Run(in *invocation) error {
	if c.CSV == "" {
		return c.check(in, c.DatabaseURL)
	}
	file, err := os.Open(c.CSV)
	if err != nil {
		return fmt.Errorf("open the catalogue: %w", err)
	}
	defer func() { _ = file.Close() }()
	novels, err := catalogue.Read(file)
	if err != nil {
		return err
	}
	arena := ArenaFlags{DataDir: c.DataDir, Binary: c.Binary, Titles: 1}
	return arena.withService(in, serviceSetup{}, func(a arenaOfOne) error {
		if err := c.tell(in, a, novels); err != nil {
			return err
		}
		return c.check(in, a.database.DatabaseURL())
	})
}

func (c *DigestsCommand) tell(in *invocation, a arenaOfOne, novels []catalogue.Novel) error {
	transport := &http.Transport{MaxIdleConnsPerHost: c.Connections}
	defer transport.CloseIdleConnections()
	story := &digests.Story{
		Client: &catalogue.Client{
			URL: "http://" + a.service.Host(), APIKey: a.database.APIKey(), Connections: max(c.Connections, 1),
			HTTP: &http.Client{Transport: transport, Timeout: time.Minute}, Now: in.now,
		},
		Integration: a.database.IntegrationID().String(), IntegrationID: a.database.IntegrationID(),
		Novelgate: a.database.Novelgate,
		Novels:    novels, Comments: c.Comments, Print: in.print,
	}
	return story.Tell(in.ctx)
}

func (c *DigestsCommand) check(in *invocation, databaseURL string) error {
	pool, err := pgxpool.New(in.ctx, databaseURL)
	if err != nil {
		return fmt.Errorf("open pool: %w", err)
	}
	defer pool.Close()
	begun := in.now()
	check := &digests.Check{Pool: pool, Now: in.now, Print: in.print}
	if err := check.Run(in.ctx); err != nil {
		return err
	}
	return in.print(fmt.Sprintf("All tables agree. The comparison took %.1f s.\n", in.now().Sub(begun).Seconds()))
}
