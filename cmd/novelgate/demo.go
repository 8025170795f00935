package main

import (
	"context"
	"fmt"

	"novelgate/aggregates/integration"
	"novelgate/commands/staff"
)

// offerDemo makes a first start on an embedded database easy to try: it creates an integration and prints a
// request that works.
func (s *service) offerDemo(ctx context.Context, in *invocation, db *databaseServer) error {
	if !db.isEmbedded {
		return nil
	}
	people := &staff.Staff{Pool: db.pools.General, Actor: actor(), Now: in.now}
	existing, err := people.Integrations(ctx)
	if err != nil || len(existing) > 0 {
		return err
	}
	demo, err := people.CreateIntegration(ctx, "demo", integration.Change{
		Capabilities: map[integration.Capability]bool{integration.Novels: true, integration.Posts: true},
	})
	if err != nil {
		return fmt.Errorf("create demo integration: %w", err)
	}
	_, secret, err := people.IssueKey(ctx, demo.ID, 0)
	if err != nil {
		return fmt.Errorf("issue demo key: %w", err)
	}
	fmt.Fprintf(in.stdout, `
This is the first start, so there is a demo integration now. Its API key, shown this once:

    %[2]s

Import a comment (the novel and its thread come into being with it):

    curl -i %[1]s/api/integrations/posts -H 'Authorization: Bearer %[2]s' -H 'Content-Type: application/json' -H 'Idempotency-Key: comment-1' -d '{"uuid": "reader-1", "username": "Ada", "novel": "The Hunger Games", "content": "Could not put it down!", "chapterNumber": 1}'

Send it again and it answers with the same identifiers. More: %[1]s/openapi.yaml, novelgate --help
`, s.publicURL, secret.Reveal())
	return nil
}
