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
	page, err := f.Page(ctx, changes.Query{
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
	List struct {
		StaffFlags
		Integration string `placeholder:"NAME" help:"Id or name of an integration (default: all)."`
	} `cmd:"" help:"List webhooks, with what waits for them."`
	Disable struct {
		WebhookArg
		RequiredReason
	} `cmd:"" help:"Switch a webhook off. Its partner can read the reason, but not switch it on."`
	Enable WebhookArg `cmd:"" help:"Switch a webhook on again. What it has missed is sent."`
}

// WebhookArg names a webhook.
type WebhookArg struct {
	StaffFlags
	WebhookID uuid.UUID `arg:"" help:"Id of the webhook."`
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

func (c *webhookCommand) run(ctx context.Context, env *environment) error {
	return env.answer(ctx, func(s staffService) (result, error) {
		switch env.verb {
		case "disable":
			return webhookColumns.one(s.SwitchWebhook(ctx, c.Disable.WebhookID, false, c.Disable.Reason))
		case "enable":
			return webhookColumns.one(s.SwitchWebhook(ctx, c.Enable.WebhookID, true, ""))
		default: // list
			id, err := integrationOrAll(ctx, s, c.List.Integration)
			if err != nil {
				return result{}, err
			}
			return webhookColumns.list(s.ListWebhooks(ctx, id))
		}
	})
}
