package admin

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/google/uuid"

	"novelgate/aggregates/integration"
	"novelgate/commands/problem"
	"novelgate/commands/staff"
)

// settings is the body of POST and PATCH on integrations; a PATCH changes what it names.
type settings struct {
	Name            *string                   `json:"name"`
	Enabled         *bool                     `json:"enabled"`
	Capabilities    *[]integration.Capability `json:"capabilities"` // exactly these
	PostsPerMinute  *int                      `json:"postsPerMinute"`
	NovelsPerMinute *int                      `json:"novelsPerMinute"`
	Review          *bool                     `json:"review"`
}

func (s settings) change() integration.Change {
	c := integration.Change{Enabled: s.Enabled, Review: s.Review, PostsPerMinute: s.PostsPerMinute, NovelsPerMinute: s.NovelsPerMinute}
	if s.Capabilities == nil {
		return c
	}
	c.Capabilities = map[integration.Capability]bool{integration.Novels: false, integration.Posts: false}
	for _, capability := range *s.Capabilities {
		c.Capabilities[capability] = true
	}
	return c
}

// created answers POST on integrations: apiKey is null when the command was carried out before.
type created struct {
	staff.Integration
	KeyID  uuid.UUID `json:"keyId"`
	APIKey *string   `json:"apiKey"`
}

// createIntegration registers an integration and issues its first key, two commands that a repetition completes.
func createIntegration(ctx context.Context, c *call) (*output, error) {
	if err := c.deliver("integrations"); err != nil {
		return nil, err
	}
	var body settings
	if err := c.decode(&body); err != nil {
		return nil, err
	}
	if body.Name == nil {
		return nil, problem.InvalidRequest(problem.FieldError{Field: "name", Message: "is required"})
	}
	made, err := c.staff.CreateIntegration(ctx, *body.Name, body.change())
	var replayed *staff.ReplayedError
	if errors.As(err, &replayed) {
		made, err = c.staff.Integration(ctx, replayed.StreamID.String())
	}
	if err != nil {
		return nil, err
	}
	c.staff.Delivery.Source += "/key"
	key, again, err := c.issue(ctx, made.ID, 0)
	if err != nil {
		return nil, err
	}
	out := &output{status: http.StatusCreated, body: created{made, key.KeyID, key.APIKey}, replayed: again}
	if again {
		out.status = http.StatusOK
	}
	return out, nil
}

func listIntegrations(ctx context.Context, c *call) (*output, error) {
	after, limit, err := c.cursorAndLimit()
	if err != nil {
		return nil, err
	}
	all, err := c.staff.Integrations(ctx)
	if err != nil {
		return nil, err
	}
	id := func(i staff.Integration) string { return i.ID.String() }
	return &output{status: http.StatusOK, body: cut(all, after, limit, id)}, nil
}

// cut returns the page of a short list that follows the item with the key after.
func cut[T any](all []T, after string, limit int, key func(T) string) page[T] {
	if i := slices.IndexFunc(all, func(item T) bool { return key(item) == after }); i >= 0 {
		all = all[i+1:]
	}
	return paginate(all, limit, key)
}

func showIntegration(ctx context.Context, c *call) (*output, error) {
	id, err := c.id("integrationId")
	if err != nil {
		return nil, err
	}
	found, err := c.staff.Integration(ctx, id.String())
	return &output{status: http.StatusOK, body: found}, err
}

func changeIntegration(ctx context.Context, c *call) (*output, error) {
	id, err := c.id("integrationId")
	if err != nil {
		return nil, err
	}
	var body settings
	if err := c.decode(&body); err != nil {
		return nil, err
	}
	if body.Name != nil {
		return nil, problem.InvalidRequest(problem.FieldError{Field: "name", Message: "cannot be changed"})
	}
	changed, err := c.staff.ChangeIntegration(ctx, id, body.change())
	return &output{status: http.StatusOK, body: changed}, err
}
