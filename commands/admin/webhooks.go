package admin

import (
	"context"
	"net/http"

	"novelgate/commands/webhooks"
)

// listWebhooks lists the webhooks of one integration or of all. The list has no pages, because there are few webhooks.
func listWebhooks(ctx context.Context, c *call) (*output, error) {
	integration := c.query.ID("integration")
	if err := c.query.Err(); err != nil {
		return nil, err
	}
	found, err := (&webhooks.Store{Pool: c.staff.Pool}).List(ctx, integration.UUID)
	return &output{status: http.StatusOK, body: struct {
		Items []webhooks.StaffWebhook `json:"items"`
	}{found}}, err
}

// switchWebhook switches a webhook off or on. A repetition succeeds: off again replaces the time and the reason, on
// again makes the retries due.
func switchWebhook(on bool) operation {
	return withBody(func(ctx context.Context, c *call, body reasonBody) (*output, error) {
		found, err := (&webhooks.Store{Pool: c.staff.Pool}).Switch(ctx, c.id, on, c.staff.Actor, body.Reason)
		return &output{status: http.StatusOK, body: found}, err
	})
}
