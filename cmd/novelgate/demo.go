package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/google/uuid"

	"novelgate/aggregates/principal"
	"novelgate/commands/staff"
	"novelgate/internal/pgserver"
)

// welcome prints the next steps. At the first start on an embedded database it prints an example request. When no staff
// key is usable, it prints the command that creates one; later starts on an embedded database log the command instead.
func (db *databaseServer) welcome(ctx context.Context, env *env, public *url.URL) {
	commands := newStaff(db.pools.General, env.now)
	first, err := db.offerDemo(ctx, env, commands, public)
	if err != nil {
		db.logger.WarnContext(ctx, "no demo integration", slog.Any("error", err))
	}
	keys, err := commands.UserKeys(ctx, principal.Staff)
	if err != nil {
		db.logger.WarnContext(ctx, "cannot read the keys of staff", slog.Any("error", err))
		return
	}
	if slices.ContainsFunc(keys, func(key staff.UserKey) bool { return key.Usable(env.now()) }) {
		return
	}
	command := "novelgate staff create NAME" + db.flags()
	if db.isEmbedded && !first {
		db.logger.InfoContext(ctx, "no member of staff has an API key", slog.String("command", command))
		return
	}
	if first {
		fmt.Fprintln(env.stdout)
	}
	fmt.Fprintf(env.stdout, "No member of staff has an API key. Make one: %s\n", command)
}

// offerDemo creates a demo integration at the first start on an embedded database and prints an example request. It
// reports whether this was the first start.
func (db *databaseServer) offerDemo(
	ctx context.Context, env *env, commands *staff.Staff, public *url.URL,
) (first bool, err error) {
	if !db.isEmbedded {
		return false, nil
	}
	existing, err := commands.ListIntegrations(ctx, uuid.Nil, 1)
	if err != nil || len(existing) > 0 {
		return false, err
	}
	demo, err := commands.CreateIntegration(ctx, "demo", principal.Change{
		Capabilities: map[principal.Capability]bool{principal.Novels: true, principal.Posts: true},
	})
	if err != nil {
		return false, fmt.Errorf("create demo integration: %w", err)
	}
	_, secret, err := commands.IssueKey(ctx, demo.ID, 0)
	if err != nil {
		return false, fmt.Errorf("issue demo key: %w", err)
	}
	fmt.Fprintf(env.stdout, `
This is the first start, so there is a demo integration now. Its API key, shown this once:

    %[2]s

Import a comment (this also creates the novel and its thread):

    curl -i %[1]s/api/integrations/posts -H 'Authorization: Bearer %[2]s' -H 'Content-Type: application/json' -H 'Idempotency-Key: comment-1' -d '{"uuid": "reader-1", "username": "Ada", "novel": "The Hunger Games", "content": "Could not put it down!", "chapterNumber": 1}'

Send it again and it answers with the same identifiers. More: %[1]s/openapi.yaml, novelgate --help
`, public, secret.Reveal())
	return true, nil
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
	if strings.ContainsFunc(dir, func(r rune) bool { // a shell may not take it as it is
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("/._-", r)
	}) {
		dir = "'" + strings.ReplaceAll(dir, "'", `'\''`) + "'"
	}
	return " --data-dir " + dir
}
