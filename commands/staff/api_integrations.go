package staff

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"

	"novelgate/aggregates/principal"
	"novelgate/commands/refusals"
	"novelgate/events"
	"novelgate/internal/auth"
	"novelgate/internal/problem"
	"novelgate/internal/web"
)

// settings is the body of POST and PATCH on integrations. PATCH changes only the members in the body.
type settings struct {
	Name            *string   `json:"name,omitzero"`
	Enabled         *bool     `json:"enabled,omitzero"`
	Capabilities    *[]string `json:"capabilities,omitzero"` // the complete list
	PostsPerMinute  *int      `json:"postsPerMinute,omitzero"`
	NovelsPerMinute *int      `json:"novelsPerMinute,omitzero"`
	LinesPerMinute  *int      `json:"linesPerMinute,omitzero"`
	Review          *bool     `json:"review,omitzero"`
}

func (s settings) change() principal.Change {
	c := principal.Change{
		Name: s.Name, Enabled: s.Enabled, Review: s.Review,
		PostsPerMinute: s.PostsPerMinute, NovelsPerMinute: s.NovelsPerMinute, LinesPerMinute: s.LinesPerMinute,
	}
	if s.Capabilities == nil {
		return c
	}
	c.Capabilities = map[principal.Capability]bool{}
	for _, capability := range principal.Capabilities() {
		c.Capabilities[capability] = false
	}
	for _, capability := range *s.Capabilities {
		c.Capabilities[principal.Capability(capability)] = true
	}
	return c
}

// createdIntegration is the response to POST on integrations. apiKey is null for a retry.
type createdIntegration struct {
	Integration
	KeyID  uuid.UUID `json:"keyId"`
	APIKey *string   `json:"apiKey"`
}

// createIntegration registers an integration and issues its first key. These are two commands: after a failure between
// them, a retry executes the second one.
func createIntegration(ctx context.Context, c *call, body settings) (*web.Answer, error) {
	if body.Name == nil {
		return nil, problem.InvalidField("name", "is required")
	}
	made, err := c.staff.CreateIntegration(ctx, *body.Name, body.change())
	var replayed *ReplayedError
	mismatch := false
	if errors.As(err, &replayed) {
		mismatch = replayed.Mismatch
		made, err = c.staff.Integration(ctx, replayed.StreamID.String())
	}
	if err != nil {
		return nil, err
	}
	c.staff.Delivery.Source += "/key"
	issued, secret, err := c.staff.IssueKey(ctx, made.ID, 0)
	found, err := c.keyAnswer(issued, secret, err)
	if err != nil {
		return nil, err
	}
	if found.Status != http.StatusCreated {
		web.SetReplayed(c.Writer.Header(), true, mismatch)
	}
	key, _ := found.Body.(issuedKey)
	found.Body = createdIntegration{made, key.KeyID, key.APIKey}
	return found, nil
}

// integrationList is the name of the list of integrations in cursors.
const integrationList = "i"

func listIntegrations(ctx context.Context, c *call) (*web.Answer, error) {
	limit, after := c.limit(), c.idCursor(integrationList)
	return paginate(c, integrationList, limit, func(i *Integration) string { return i.ID.String() },
		func() ([]Integration, error) { return c.staff.ListIntegrations(ctx, after, limit+1) })
}

func showIntegration(ctx context.Context, c *call) (*web.Answer, error) {
	return answer(c.staff.IntegrationWithHistory(ctx, c.id.String()))
}

func changeIntegration(ctx context.Context, c *call, body settings) (*web.Answer, error) {
	return answer(c.staff.ChangeIntegration(ctx, c.id, body.change()))
}

// listRefusals lists the refused commands of the integration in the path.
func listRefusals(ctx context.Context, c *call) (*web.Answer, error) {
	if _, err := c.staff.Integration(ctx, c.id.String()); err != nil {
		return nil, err
	}
	return refusals.Page(ctx, c.staff.Pool, c.query, c.id)
}

// keyRequest is the body of POST on the keys of an integration.
type keyRequest struct {
	ExpiresInSeconds int64 `json:"expiresInSeconds"` // 0: never
}

// rotation is the body of POST on the rotation of a key.
type rotation struct {
	OverlapSeconds int64 `json:"overlapSeconds"` // the old key stays valid for this time
}

// seconds returns the time in a member of a body, at most a hundred years.
func seconds(member string, n int64) (time.Duration, error) {
	const longest = 100 * 365 * 24 * 60 * 60
	if n < 0 || n > longest {
		return 0, problem.InvalidField(member, fmt.Sprintf("must lie between 0 and %d", longest))
	}
	return time.Duration(n) * time.Second, nil
}

func issueKey(ctx context.Context, c *call, body keyRequest) (*web.Answer, error) {
	lifetime, err := seconds("expiresInSeconds", body.ExpiresInSeconds)
	if err != nil {
		return nil, err
	}
	return c.keyAnswer(c.staff.IssueKey(ctx, c.id, lifetime))
}

func rotateKey(ctx context.Context, c *call, body rotation) (*web.Answer, error) {
	overlap, err := seconds("overlapSeconds", body.OverlapSeconds)
	if err != nil {
		return nil, err
	}
	return c.keyAnswer(c.staff.RotateKey(ctx, c.id, overlap))
}

// issuedKey is the response with a new key. apiKey is null for a retry.
type issuedKey struct {
	KeyID         uuid.UUID  `json:"keyId"`
	IntegrationID uuid.UUID  `json:"integrationId"`
	APIKey        *string    `json:"apiKey"`
	Prefix        string     `json:"prefix"`
	ExpiresAt     *time.Time `json:"expiresAt"`
}

// keyAnswer returns the answer with a new key and its secret. For a retry it returns the recorded key without the
// secret.
func (c *call) keyAnswer(issued Key, secret auth.Secret, err error) (*web.Answer, error) {
	var replayed *ReplayedError
	switch {
	case err == nil:
		return &web.Answer{Status: http.StatusCreated, Body: issuedKey{
			KeyID: issued.ID, IntegrationID: issued.IntegrationID, APIKey: new(secret.Reveal()), Prefix: issued.Prefix,
			ExpiresAt: issued.ExpiresAt,
		}}, nil
	case errors.As(err, &replayed):
		before, ok := replayed.Event.(events.KeyIssued)
		if !ok {
			return nil, fmt.Errorf("a key is recorded as %s", replayed.Event.Type())
		}
		web.SetReplayed(c.Writer.Header(), true, replayed.Mismatch)
		return answer(issuedKey{
			KeyID: before.KeyID, IntegrationID: replayed.StreamID, Prefix: before.Prefix, ExpiresAt: before.ExpiresAt,
		}, nil)
	default:
		return nil, err
	}
}

func listKeysOfIntegration(ctx context.Context, c *call) (*web.Answer, error) {
	if _, err := c.staff.Integration(ctx, c.id.String()); err != nil {
		return nil, err
	}
	return listKeys(ctx, c)
}

// keyList is the name in cursors of the list of the keys of an integration, or of all keys.
func keyList(integration uuid.UUID) string { return "k" + string(integration[:]) }

// listKeys lists the keys of the integration in the path, or all.
func listKeys(ctx context.Context, c *call) (*web.Answer, error) {
	list := keyList(c.id)
	limit, after := c.limit(), c.idCursor(list)
	return paginate(c, list, limit, func(k *Key) string { return k.ID.String() },
		func() ([]Key, error) { return c.staff.ListKeys(ctx, c.id, after, limit+1) })
}

// revokeKey revokes a key. It is idempotent.
func revokeKey(ctx context.Context, c *call) (*web.Answer, error) {
	_, err := c.staff.RevokeKey(ctx, c.id, c.query.Text("reason"))
	if errors.Is(err, principal.ErrKeyRevoked) {
		err = nil
	}
	return &web.Answer{}, err
}
