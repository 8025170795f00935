package main

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"novelgate/commands/webhooks"
	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/readapi/changes"
	"novelgate/readapi/history"
)

// webhookFlags configure webhooks. They have the prefix --webhook-.
type webhookFlags struct {
	AllowCIDR []netip.Prefix `env:"ALLOW_CIDR" placeholder:"CIDR" help:"Private addresses to which webhooks may be sent, also by http, such as 10.1.0.0/16. Repeatable."`
}

// webhookFeed adapts the change feed to the worker of webhooks.
type webhookFeed struct{ *changes.Feed }

func (f webhookFeed) Read(
	ctx context.Context, integration uuid.UUID, from events.Position, limit int,
) ([]webhooks.Message, error) {
	page, err := f.Feed.Read(ctx, changes.Query{
		Integration: integration, After: history.Cursor{Position: from}, Limit: limit,
	})
	if err != nil {
		return nil, err
	}
	messages := make([]webhooks.Message, len(page.Changes))
	for i := range page.Changes {
		c := &page.Changes[i]
		body, err := json.Marshal(c)
		if err != nil {
			return nil, fmt.Errorf("encode change: %w", err)
		}
		messages[i] = webhooks.Message{ID: c.ID, Type: c.Type, Body: body, End: eventlog.Mark(c.Place)}
	}
	return messages, nil
}

type webhookCommand struct {
	List    webhookList    `cmd:"" help:"List webhooks, with what waits for them."`
	Disable webhookDisable `cmd:"" help:"Switch a webhook off. Its partner can read the reason, but not switch it on."`
	Enable  webhookEnable  `cmd:"" help:"Switch a webhook on again. What it has missed is sent."`
}

var webhookColumns = columns[webhooks.StaffWebhook]{
	[]any{"WEBHOOK", "INTEGRATION", "URL", "ENABLED", "DISABLED", "FAILING SINCE", "WAITING", "LAST ERROR"},
	func(w webhooks.StaffWebhook) []any {
		var lastError *string
		if w.Failures > 0 && len(w.Attempts) > 0 {
			lastError = w.Attempts[0].Error
		}
		return []any{
			w.ID, w.IntegrationID, w.URL, yesNo(w.Enabled), orDash(w.Disabled), formatTime(w.FailingSince), w.Waiting,
			orDash(lastError),
		}
	},
}

type webhookList struct {
	CommonFlags
	Integration string `placeholder:"NAME" help:"Id or name of an integration (default: all)."`
}

func (c *webhookList) Run(ctx context.Context, env *env) error {
	s, out, err := c.staff(ctx, env)
	if err != nil {
		return err
	}
	integration := uuid.Nil // all
	if c.Integration != "" {
		found, err := s.Integration(ctx, c.Integration)
		if err != nil {
			return err
		}
		integration = found.ID
	}
	list, err := (&webhooks.Store{Pool: s.Pool}).List(ctx, integration)
	return webhookColumns.printList(out, list, err)
}

// WebhookArg names a webhook.
type WebhookArg struct {
	CommonFlags
	WebhookID uuid.UUID `arg:"" help:"Id of the webhook."`
}

type webhookDisable struct {
	WebhookArg
	RequiredReason
}

func (c *webhookDisable) Run(ctx context.Context, env *env) error {
	s, out, err := c.staff(ctx, env)
	if err != nil {
		return err
	}
	w, err := (&webhooks.Store{Pool: s.Pool}).Switch(ctx, c.WebhookID, false, s.Actor, c.Reason)
	return webhookColumns.print(out, w, err)
}

type webhookEnable struct{ WebhookArg }

func (c *webhookEnable) Run(ctx context.Context, env *env) error {
	s, out, err := c.staff(ctx, env)
	if err != nil {
		return err
	}
	w, err := (&webhooks.Store{Pool: s.Pool}).Switch(ctx, c.WebhookID, true, s.Actor, "")
	return webhookColumns.print(out, w, err)
}
