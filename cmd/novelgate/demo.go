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

// welcome prints what to try first: at the first start on an embedded database a request that works; and how to make a
// key for staff when no key of theirs is usable. A later start on an embedded database prints its addresses only, so
// that one logs the latter.
func (s *service) welcome(ctx context.Context, out streams) {
	people := &staff.Staff{Pool: s.db.pools.General, Actor: actor(), Now: s.now}
	first, err := s.offerDemo(ctx, out, people)
	if err != nil {
		s.logger.WarnContext(ctx, "no demo integration", slog.Any("error", err))
	}
	keys, err := people.PersonKeys(ctx, person.Staff)
	if err != nil {
		s.logger.WarnContext(ctx, "whether staff has a key is unknown", slog.Any("error", err))
		return
	}
	if slices.ContainsFunc(keys, func(key staff.PersonKey) bool { return key.Usable(s.now()) }) {
		return
	}
	command := "novelgate staff create NAME" + s.db.flags()
	if s.db.isEmbedded && !first {
		s.logger.InfoContext(ctx, "no member of staff has an API key", slog.String("command", command))
		return
	}
	if first {
		fmt.Fprintln(out.stdout)
	}
	fmt.Fprintf(out.stdout, "No member of staff has an API key. Make one: %s\n", command)
}

// offerDemo creates an integration at the first start on an embedded database, prints a request that works, and reports
// whether it did.
func (s *service) offerDemo(ctx context.Context, out streams, people *staff.Staff) (first bool, err error) {
	if !s.db.isEmbedded {
		return false, nil
	}
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
	fmt.Fprintf(out.stdout, `
This is the first start, so there is a demo integration now. Its API key, shown this once:

    %[2]s

Import a comment (the novel and its thread come into being with it):

    curl -i %[1]s/api/integrations/posts -H 'Authorization: Bearer %[2]s' -H 'Content-Type: application/json' -H 'Idempotency-Key: comment-1' -d '{"uuid": "reader-1", "username": "Ada", "novel": "The Hunger Games", "content": "Could not put it down!", "chapterNumber": 1}'

Send it again and it answers with the same identifiers. More: %[1]s/openapi.yaml, novelgate --help
`, s.publicURL, secret.Reveal())
	return true, nil
}

// flags returns what a command needs to find the database, with a space before it; "" when it finds it by itself.
func (db *databaseServer) flags() string {
	if !db.isEmbedded {
		return " --database-url URL" // the URL itself may hold a password
	}
	dir := db.config.DataDir
	if absolute, err := filepath.Abs(dir); err == nil {
		dir = absolute // the command may be typed elsewhere
	}
	if db.config.DataDir == "" || dir == pgserver.DefaultDataDir() {
		return ""
	}
	return " --data-dir " + shellQuote(dir)
}

// shellQuote quotes a word for a shell.
func shellQuote(word string) string {
	plain := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("/._-", r) }
	if strings.TrimLeftFunc(word, plain) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
