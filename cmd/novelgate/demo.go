package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/uuid"

	"novelgate/aggregates/principal"
	"novelgate/commands/staff"
	"novelgate/internal/pgserver"
)

// welcome prints the next steps: at the first start on an embedded database an example request, on another one the
// command that registers a partner, and while no staff key is usable the command that creates one.
func (db *databaseServer) welcome(ctx context.Context, env *environment, public *url.URL) {
	commands := env.newStaff(db.pools.General)
	if err := db.offerDemo(ctx, env, commands, public); err != nil {
		db.logger.WarnContext(ctx, "no demo integration", slog.Any("error", err))
	}
	if db.isNew && !db.isEmbedded {
		fmt.Fprintf(env.stdout, "This is the first start on this database. Register a partner, and get its API key: "+
			"novelgate integration create NAME --capability novels --capability posts%s\n", db.flags())
	}
	keys, err := commands.UserKeys(ctx, principal.Staff)
	if err != nil {
		db.logger.WarnContext(ctx, "cannot read the keys of staff", slog.Any("error", err))
		return
	}
	if !slices.ContainsFunc(keys, func(key staff.UserKey) bool { return key.Usable(env.now()) }) {
		fmt.Fprintf(env.stdout, "No member of staff has an API key. Make one: novelgate staff create NAME%s\n", db.flags())
	}
}

// offerDemo creates a demo integration at the first start on an embedded database and prints an example request.
func (db *databaseServer) offerDemo(
	ctx context.Context, env *environment, commands *staff.Staff, public *url.URL,
) error {
	if !db.isEmbedded {
		return nil
	}
	existing, err := commands.ListIntegrations(ctx, uuid.Nil, 1)
	if err != nil || len(existing) > 0 {
		return err
	}
	demo, err := commands.CreateIntegration(ctx, "demo", principal.Change{
		Capabilities: map[principal.Capability]bool{principal.Novels: true, principal.Posts: true},
	})
	if err != nil {
		return fmt.Errorf("create demo integration: %w", err)
	}
	_, secret, err := commands.IssueKey(ctx, demo.ID, 0)
	if err != nil {
		return fmt.Errorf("issue demo key: %w", err)
	}
	fmt.Fprintf(env.stdout, `
This is the first start, so there is a demo integration now. Its API key, shown this once:

    %[2]s

Import a comment (this also creates the novel and its thread):

    curl -i %[1]s/api/integrations/posts -H 'Authorization: Bearer %[2]s' -H 'Content-Type: application/json' -H 'Idempotency-Key: comment-1' -d '{"uuid": "reader-1", "username": "Ada", "novel": "The Hunger Games", "content": "Could not put it down!", "chapterNumber": 1}'

Send it again and it answers with the same identifiers. More: %[1]s/openapi.yaml, novelgate --help

`, public, secret.Reveal())
	return nil
}

// flags returns the flags that a command needs to find the database, with a leading space; "" when it needs none.
func (db *databaseServer) flags() string {
	if !db.isEmbedded {
		return " --database-url URL" // the URL may contain a password
	}
	dir, err := filepath.Abs(db.config.DataDir) // the command may run in another directory
	if db.config.DataDir == "" || err != nil || dir == pgserver.DefaultDataDir() {
		return ""
	}
	return " --data-dir '" + strings.ReplaceAll(dir, "'", `'\''`) + "'" // a shell takes it as it is
}
