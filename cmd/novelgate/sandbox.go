package main

import (
	"context"
	"fmt"

	"novelgate/internal/database"
)

type sandboxCommand struct {
	Wipe sandboxWipe `cmd:"" help:"Empty the database of a sandbox, while no service runs on it."`
}

type sandboxWipe struct {
	DatabaseFlags
	BackupFlag

	Yes bool `help:"Required, because nothing brings back what is wiped."`
}

func (*sandboxWipe) Help() string {
	return "Novels, comments and their history are gone. Integrations, staff and auditors stay, with their keys. Only a " +
		"database that began with serve --sandbox can be wiped."
}

// run empties the database. It starts the embedded database if necessary.
func (c *sandboxWipe) run(ctx context.Context, env *environment) error {
	if _, err := env.startDatabase(ctx); err != nil {
		return err
	}
	pool, err := env.pool(ctx)
	if err != nil {
		return err
	}
	sandbox, err := database.IsSandbox(ctx, pool)
	switch {
	case err != nil:
		return err
	case !sandbox:
		return database.ErrWipeReal
	case !c.Yes:
		return fmt.Errorf("give --yes to remove all novels and comments in the database %s",
			pool.Config().ConnConfig.Database)
	}
	if err := database.WipeSandbox(ctx, pool); err != nil {
		return err
	}
	fmt.Fprintln(env.stdout, "The sandbox is empty; its integrations and keys are still valid.")
	return nil
}
