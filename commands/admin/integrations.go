package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"novelgate/aggregates/principal"
	"novelgate/commands/staff"
	"novelgate/events"
	"novelgate/internal/apikey"
	"novelgate/internal/httpkit"
	"novelgate/internal/problem"
)

// settings is the body of POST and PATCH on integrations. PATCH changes only the members in the body.
type settings struct {
	Name            *string                 `json:"name"`
	Enabled         *bool                   `json:"enabled"`
	Capabilities    *[]principal.Capability `json:"capabilities"` // the complete list
	PostsPerMinute  *int                    `json:"postsPerMinute"`
	NovelsPerMinute *int                    `json:"novelsPerMinute"`
	NovelUpdates    optionalLimit           `json:"novelUpdatesPerMinute,omitzero"`
	LinesPerMinute  *int                    `json:"linesPerMinute,omitzero"`
	Review          *bool                   `json:"review"`
}

// optionalLimit is a limit that null switches off. The zero value means that the member was omitted.
type optionalLimit struct{ *events.UpdateLimit }

// MarshalJSONTo implements json.MarshalerTo.
func (l optionalLimit) MarshalJSONTo(encoder *jsontext.Encoder) error {
	return json.MarshalEncode(encoder, l.PerMinute)
}

func (*settings) members() []string {
	return []string{
		"name", "enabled", "capabilities", "postsPerMinute", "novelsPerMinute", "novelUpdatesPerMinute", "linesPerMinute",
		"review",
	}
}

func (s *settings) read(o *httpkit.Object) {
	if name, ok := o.Text("name", false); ok {
		s.Name = &name
	}
	if enabled, ok := o.Bool("enabled"); ok {
		s.Enabled = &enabled
	}
	capabilities := []principal.Capability{}
	if o.Texts("capabilities", false, 0, maxCapabilities, func(_, text string) {
		capabilities = append(capabilities, principal.Capability(text))
	}) {
		s.Capabilities = &capabilities
	}
	s.PostsPerMinute, s.NovelsPerMinute = readLimit(o, "postsPerMinute"), readLimit(o, "novelsPerMinute")
	s.LinesPerMinute = readLimit(o, "linesPerMinute")
	if o.Null("novelUpdatesPerMinute") {
		s.NovelUpdates = optionalLimit{&events.UpdateLimit{}}
	} else if perMinute := readLimit(o, "novelUpdatesPerMinute"); perMinute != nil {
		s.NovelUpdates = optionalLimit{&events.UpdateLimit{PerMinute: perMinute}}
	}
	if review, ok := o.Bool("review"); ok {
		s.Review = &review
	}
}

// maxCapabilities limits the length of the list. There are only three capabilities.
const maxCapabilities = 20

func readLimit(o *httpkit.Object, name string) *int {
	n, ok := o.Integer(name)
	if !ok {
		return nil
	}
	return new(int(n))
}

func (s settings) change() principal.Change {
	c := principal.Change{
		Name: s.Name, Enabled: s.Enabled, Review: s.Review,
		PostsPerMinute: s.PostsPerMinute, NovelsPerMinute: s.NovelsPerMinute, NovelUpdates: s.NovelUpdates.UpdateLimit,
		LinesPerMinute: s.LinesPerMinute,
	}
	if s.Capabilities == nil {
		return c
	}
	c.Capabilities = map[principal.Capability]bool{}
	for _, capability := range principal.Capabilities() {
		c.Capabilities[capability] = false
	}
	for _, capability := range *s.Capabilities {
		c.Capabilities[capability] = true
	}
	return c
}

// canonical implements normalised: the order and repetition of capabilities and white space around the name have no
// meaning.
func (s *settings) canonical() any {
	same := *s
	if s.Name != nil {
		name := strings.TrimSpace(*s.Name)
		same.Name = &name
	}
	if s.Capabilities != nil {
		capabilities := slices.Compact(slices.Sorted(slices.Values(*s.Capabilities)))
		same.Capabilities = &capabilities
	}
	return same
}

// createdIntegration is the response to POST on integrations. apiKey is null for a retry.
type createdIntegration struct {
	staff.Integration
	KeyID  uuid.UUID `json:"keyId"`
	APIKey *string   `json:"apiKey"`
}

// createIntegration registers an integration and issues its first key. These are two commands: after a failure between
// them, a retry executes the second one.
func createIntegration(ctx context.Context, c *call, body settings) (*output, error) {
	if body.Name == nil {
		return nil, problem.InvalidField("name", "is required")
	}
	made, err := c.staff.CreateIntegration(ctx, *body.Name, body.change())
	var replayed *staff.ReplayedError
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
	out, key, err := keyOutput(issued, secret, err)
	if err != nil {
		return nil, err
	}
	out.body, out.mismatch = createdIntegration{made, key.KeyID, key.APIKey}, out.replayed && mismatch
	return out, nil
}

func listIntegrations(ctx context.Context, c *call) (*output, error) {
	limit, after := c.limit(), c.sortKeyCursor(integrationList)
	return paginate(c, integrationList, limit, encodeSortKey,
		func() ([]staff.Integration, error) { return c.staff.ListIntegrations(ctx, after, limit+1) })
}

func showIntegration(ctx context.Context, c *call) (*output, error) {
	found, err := c.staff.Integration(ctx, c.id.String())
	return &output{status: http.StatusOK, body: found}, err
}

func changeIntegration(ctx context.Context, c *call, body settings) (*output, error) {
	changed, err := c.staff.ChangeIntegration(ctx, c.id, body.change())
	return &output{status: http.StatusOK, body: changed}, err
}

// maxLifetime is the longest lifetime of a key, in seconds: a hundred years.
const maxLifetime = 100 * 365 * 24 * 60 * 60

// keyRequest is the body of POST on the keys of an integration.
type keyRequest struct {
	ExpiresInSeconds int64 `json:"expiresInSeconds"` // 0: never
}

func (*keyRequest) members() []string { return []string{"expiresInSeconds"} }

func (k *keyRequest) read(o *httpkit.Object) { k.ExpiresInSeconds = readSeconds(o, "expiresInSeconds") }

// readSeconds reads a number of seconds, up to maxLifetime.
func readSeconds(o *httpkit.Object, name string) int64 {
	seconds, ok := o.Integer(name)
	if ok && (seconds < 0 || seconds > maxLifetime) {
		o.Fail(name, "must lie between 0 and %d", maxLifetime)
	}
	return seconds
}

func issueKey(ctx context.Context, c *call, body keyRequest) (*output, error) {
	issued, secret, err := c.staff.IssueKey(ctx, c.id, time.Duration(body.ExpiresInSeconds)*time.Second)
	out, _, err := keyOutput(issued, secret, err)
	return out, err
}

// rotation is the body of POST on the rotation of a key.
type rotation struct {
	OverlapSeconds int64 `json:"overlapSeconds"` // the old key stays valid for this time
}

func (*rotation) members() []string { return []string{"overlapSeconds"} }

func (r *rotation) read(o *httpkit.Object) { r.OverlapSeconds = readSeconds(o, "overlapSeconds") }

func rotateKey(ctx context.Context, c *call, body rotation) (*output, error) {
	issued, secret, err := c.staff.RotateKey(ctx, c.id, time.Duration(body.OverlapSeconds)*time.Second)
	out, _, err := keyOutput(issued, secret, err)
	return out, err
}

// issuedKey is the response with a new key. apiKey is null for a retry.
type issuedKey struct {
	KeyID     uuid.UUID  `json:"keyId"`
	APIKey    *string    `json:"apiKey"`
	Prefix    string     `json:"prefix"`
	ExpiresAt *time.Time `json:"expiresAt"`
}

// keyOutput returns the response with a new key and its secret. For a retry it returns the recorded key without the
// secret.
func keyOutput(issued staff.Key, secret apikey.Secret, err error) (*output, issuedKey, error) {
	var replayed *staff.ReplayedError
	switch {
	case err == nil:
		revealed := secret.Reveal()
		key := issuedKey{KeyID: issued.ID, APIKey: &revealed, Prefix: issued.Prefix, ExpiresAt: issued.ExpiresAt}
		return &output{status: http.StatusCreated, body: key}, key, nil
	case errors.As(err, &replayed):
		before, ok := replayed.Event.(events.KeyIssued)
		if !ok {
			return nil, issuedKey{}, fmt.Errorf("a key is recorded as %s", replayed.Event.Type())
		}
		key := issuedKey{KeyID: before.KeyID, Prefix: before.Prefix, ExpiresAt: before.ExpiresAt}
		return &output{status: http.StatusOK, body: key, replayed: true, mismatch: replayed.Mismatch}, key, nil
	default:
		return nil, issuedKey{}, err
	}
}

func listKeys(ctx context.Context, c *call) (*output, error) {
	limit, after := c.limit(), c.sortKeyCursor(keyList(c.id))
	return paginate(c, keyList(c.id), limit, encodeSortKey, func() ([]staff.Key, error) {
		if _, err := c.staff.Integration(ctx, c.id.String()); err != nil {
			return nil, err
		}
		return c.staff.ListKeys(ctx, c.id, after, limit+1)
	})
}

// revokeKey revokes a key. It is idempotent.
func revokeKey(ctx context.Context, c *call) (*output, error) {
	_, err := c.staff.RevokeKey(ctx, c.id, c.query.Text("reason"))
	if errors.Is(err, principal.ErrKeyRevoked) {
		err = nil
	}
	return &output{}, err
}
