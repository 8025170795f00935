package staff

import (
	"context"

	"novelgate/commands/webhooks"
	"novelgate/internal/web"
)

// listWebhooks lists the webhooks of one integration or of all. The list has no pages, because there are few webhooks.
func listWebhooks(ctx context.Context, c *call) (*web.Answer, error) {
	integration := c.query.ID("integration")
	if err := c.query.Err(); err != nil {
		return nil, err
	}
	found, err := (&webhooks.Store{Pool: c.staff.Pool}).List(ctx, integration.UUID)
	return answer(struct {
		Items []webhooks.StaffWebhook `json:"items"`
	}{found}, err)
}

// switchWebhook switches a webhook off or on. A repetition succeeds: off again replaces the time and the reason, on
// again makes the retries due.
func switchWebhook(on bool) operation {
	return withBody(func(ctx context.Context, c *call, body reasonBody) (*web.Answer, error) {
		return answer((&webhooks.Store{Pool: c.staff.Pool}).Switch(ctx, c.id, on, c.staff.Actor, body.Reason))
	})
}
