package main

import (
	"fmt"

	"novelgate/migrations"
)

// MigrateCommand is `novelgate migrate`.
type MigrateCommand struct {
	DatabaseFlags
	OutputFlags
}

// Run applies what is pending. An embedded database is started for it when it does not run.
func (c *MigrateCommand) Run(in *invocation) error {
	url, stop, err := c.started(in)
	if err != nil {
		return err
	}
	defer stop()
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
