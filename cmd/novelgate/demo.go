package main

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"novelgate/aggregates/integration"
	"novelgate/aggregates/person"
	"novelgate/commands/staff"
	"novelgate/internal/pgserver"
)

// offerDemo makes a first start on an embedded database easy to try: it creates an integration and prints a
// request that works. It reports whether it did.
func (s *service) offerDemo(ctx context.Context, in *invocation, db *databaseServer) (first bool, err error) {
	if !db.isEmbedded {
		return false, nil
	}
	people := &staff.Staff{Pool: db.pools.General, Actor: actor(), Now: in.now}
	existing, err := people.Integrations(ctx)
	if err != nil || len(existing) > 0 {
		return false, err
	}
	demo, err := people.CreateIntegration(ctx, "demo", integration.Change{
		Capabilities: map[integration.Capability]bool{integration.Novels: true, integration.Posts: true},
	})
	if err != nil {
		return false, fmt.Errorf("create demo integration: %w", err)
	}
	_, secret, err := people.IssueKey(ctx, demo.ID, 0)
	if err != nil {
		return false, fmt.Errorf("issue demo key: %w", err)
	}
	fmt.Fprintf(in.stdout, `
This is the first start, so there is a demo integration now. Its API key, shown this once:

    %[2]s

Import a comment (the novel and its thread come into being with it):

    curl -i %[1]s/api/integrations/posts -H 'Authorization: Bearer %[2]s' -H 'Content-Type: application/json' -H 'Idempotency-Key: comment-1' -d '{"uuid": "reader-1", "username": "Ada", "novel": "The Hunger Games", "content": "Could not put it down!", "chapterNumber": 1}'

Send it again and it answers with the same identifiers. More: %[1]s/openapi.yaml, novelgate --help
`, s.publicURL, secret.Reveal())
	return true, nil
}

// offerStaffKey says how to make a key for staff, when there is none that opens anything. A later start on an embedded
// database prints its addresses only, so that one says it in the log.
func (s *service) offerStaffKey(ctx context.Context, in *invocation, db *databaseServer, first bool) error {
	people := &staff.Staff{Pool: db.pools.General, Actor: actor(), Now: in.now}
	keys, err := people.PersonKeys(ctx, person.Staff)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(keys, func(key staff.PersonKey) bool { return key.Usable(in.now()) }) {
		return nil
	}
	command := "novelgate staff create NAME" + db.flags()
	if db.isEmbedded && !first {
		s.logger.InfoContext(ctx, "no member of staff has an API key", slog.String("command", command))
		return nil
	}
	if first {
		fmt.Fprintln(in.stdout)
	}
	fmt.Fprintf(in.stdout, "No member of staff has an API key. Make one: %s\n", command)
	return nil
}

// flags returns what a command needs to find the database, with a space before it; "" when it finds it by itself.
func (db *databaseServer) flags() string {
	if !db.isEmbedded {
		return " --database-url URL" // itself it may hold a password
	}
	if db.config.DataDir == "" {
		return ""
	}
	dir, err := filepath.Abs(db.config.DataDir) // the command may be typed elsewhere
	if err != nil {
		dir = db.config.DataDir
	}
	if dir == pgserver.DefaultDataDir() {
		return ""
	}
	return " --data-dir " + shellQuote(dir)
}

// shellQuote spells a word so that a shell takes it as it is.
func shellQuote(word string) string {
	plain := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("/._-", r) }
	if strings.TrimLeftFunc(word, plain) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
