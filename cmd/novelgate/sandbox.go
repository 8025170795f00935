package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"novelgate/internal/database"
)

type sandboxCommand struct {
	Wipe sandboxWipe `cmd:"" help:"Empty the database of a sandbox, while no service runs on it."`
}

type sandboxWipe struct {
	DatabaseFlags
	Yes bool `help:"Do not ask."`
}

func (*sandboxWipe) Help() string {
	return "Novels, comments and their history are gone. Integrations, staff and auditors stay, with their keys. Only a " +
		"database that began with serve --sandbox can be wiped."
}

// Run empties the database. It starts the embedded database if necessary.
func (c *sandboxWipe) Run(ctx context.Context, env *env) error {
	if err := c.start(ctx, env); err != nil {
		return err
	}
	pool, err := c.pool(ctx, env)
	if err != nil {
		return err
	}
	sandbox, err := database.IsSandbox(ctx, pool)
	switch {
	case err != nil:
		return err
	case !sandbox:
		return database.ErrWipeReal
	case !c.Yes && !isTerminal(os.Stdin):
		return errors.New("nobody is asked here: give --yes to wipe the sandbox")
	case !c.Yes:
		fmt.Fprintf(env.stderr, "Remove all novels and comments in the database %s? [y/N] ",
			pool.Config().ConnConfig.Database)
		answer, _ := bufio.NewReader(os.Stdin).ReadString('\n') // no answer is a no
		if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
			return errors.New("nothing was removed")
		}
	}
	if err := database.WipeSandbox(ctx, pool); err != nil {
		return err
	}
	fmt.Fprintln(env.stdout, "The sandbox is empty; its integrations and keys are still valid.")
	return nil
}
