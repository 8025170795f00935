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
		Integration string `arg:"" optional:"" help:"Id or name of an integration (default: all)."`
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
	Webhook string `arg:"" help:"Its URL, its integration if that has one webhook, or its id."`
}

// webhookColumns returns the columns of webhooks, whose integrations owners names.
func webhookColumns(owners map[uuid.UUID]string) columns[webhooks.StaffWebhook] {
	return columns[webhooks.StaffWebhook]{
		[]any{"INTEGRATION", "URL", "ENABLED", "DISABLED", "WAITING", "FAILING SINCE", "LAST ERROR"},
		func(w webhooks.StaffWebhook) []any {
			var lastError *string
			if w.Failures > 0 && len(w.Attempts) > 0 {
				lastError = w.Attempts[0].Error
			}
			return []any{
				owners[w.IntegrationID], w.URL, yesNo(w.Enabled), orDash(w.Disabled), w.Waiting, formatTime(w.FailingSince),
				orDash(lastError),
			}
		},
	}
}

func (a WebhookArg) switched(ctx context.Context, s staffService, on bool, reason string) (result, error) {
	id, err := webhookID(ctx, s, a.Webhook)
	if err != nil {
		return result{}, err
	}
	switched, err := s.SwitchWebhook(ctx, id, on, reason)
	if err != nil {
		return result{}, err
	}
	owners, err := integrationNames(ctx, s)
	return webhookColumns(owners).one(switched, err)
}

func (c *webhookCommand) run(ctx context.Context, env *environment) error {
	return env.answer(ctx, func(s staffService) (result, error) {
		switch env.verb {
		case "disable":
			return c.Disable.switched(ctx, s, false, c.Disable.Reason)
		case "enable":
			return c.Enable.switched(ctx, s, true, "")
		default: // list
			id, err := integrationOrAll(ctx, s, c.List.Integration)
			if err != nil {
				return result{}, err
			}
			list, err := s.ListWebhooks(ctx, id)
			if err != nil {
				return result{}, err
			}
			owners, err := integrationNames(ctx, s)
			return webhookColumns(owners).list(list, err)
		}
	})
}
