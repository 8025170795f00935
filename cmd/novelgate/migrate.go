package main

import (
	"fmt"
	"log/slog"

	"novelgate/internal/pgserver"
	"novelgate/migrations"
)

// MigrateCommand is `novelgate migrate`.
type MigrateCommand struct {
	DatabaseFlags
	OutputFlags
}

// Run applies what is pending. An embedded database is started for it when it does not run.
func (c *MigrateCommand) Run(in *invocation) error {
	url := c.DatabaseURL
	if url == "" {
		server, err := pgserver.Start(in.ctx, pgserver.Config{DataDir: c.DataDir, Logger: slog.New(slog.NewTextHandler(in.stderr, nil))})
		if err != nil {
			return fmt.Errorf("start the embedded database: %w", err)
		}
		defer server.Stop(in.ctx) //nolint:errcheck // it has said so in its log
		url = server.URL()
	}
	result, err := migrations.Apply(in.ctx, url)
	if err != nil {
		return err
	}
	return c.print(in, result, func() {
		for _, step := range result.Applied {
			fmt.Fprintln(in.stdout, "applied", step)
		}
		for _, notice := range result.Notices {
			fmt.Fprintln(in.stdout, "notice:", notice)
		}
		fmt.Fprintln(in.stdout, "schema version", result.Version)
	})
}
