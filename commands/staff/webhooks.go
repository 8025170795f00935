package staff

import (
	"context"

	"github.com/google/uuid"

	"novelgate/commands/webhooks"
	"novelgate/internal/auth"
)

// ListWebhooks lists the webhooks of an integration, or with uuid.Nil those of all integrations, oldest first.
func (s *Staff) ListWebhooks(ctx context.Context, integration uuid.UUID) ([]webhooks.StaffWebhook, error) {
	return (&webhooks.Store{Pool: s.Pool}).List(ctx, integration)
}

// SwitchWebhook disables or enables a webhook. Its partner reads the reason.
func (s *Staff) SwitchWebhook(
	ctx context.Context, id uuid.UUID, on bool, reason string,
) (webhooks.StaffWebhook, error) {
	if auth.HasKey(reason) {
		return webhooks.StaffWebhook{}, ErrHasKey
	}
	return (&webhooks.Store{Pool: s.Pool}).Switch(ctx, id, on, s.Actor, reason)
}
