package staff

import (
	"context"

	"novelgate/commands/webhooks"
	"novelgate/internal/web"
)

type webhookList struct {
	Items []webhooks.StaffWebhook `json:"items"`
}

// listWebhooks lists the webhooks of one integration or of all. The list has no pages, because there are few webhooks.
func listWebhooks(ctx context.Context, c *call) (*web.Answer, error) {
	integration := c.query.ID("integration")
	if err := c.query.Err(); err != nil {
		return nil, err
	}
	found, err := c.staff.ListWebhooks(ctx, integration.UUID)
	return answer(webhookList{found}, err)
}

// switchWebhook switches a webhook off or on. A repetition succeeds: off again replaces the time and the reason, on
// again makes the retries due.
func switchWebhook(on bool) operation {
	return withBody(func(ctx context.Context, c *call, body reasonBody) (*web.Answer, error) {
		return answer(c.staff.SwitchWebhook(ctx, c.id, on, body.Reason))
	})
}
