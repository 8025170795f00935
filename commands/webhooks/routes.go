package webhooks

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"github.com/gorilla/mux"

	"novelgate/events"
	"novelgate/internal/auth"
	"novelgate/internal/problem"
	"novelgate/internal/web"
)

// API lets partners manage their webhooks.
type API struct {
	Partners *auth.Partners
	Store    *Store
	Sender   *Sender
}

type call = auth.Call[*auth.Integration]

// Register adds the routes to router. Checks run in the order of auth.Callers.Handle, then: path (404), body (400),
// webhook (404), its state (409).
func (a *API) Register(router *mux.Router) {
	const all = "/api/integrations/webhooks"
	const one = all + "/{webhookId}"
	for _, route := range []struct {
		method, path string
		maxBody      int64
		handle       func(ctx context.Context, c *call, id uuid.UUID) (*web.Answer, error) // id: in the path
	}{
		{http.MethodPost, all, 32 << 10, a.create},
		{http.MethodGet, all, 0, a.list},
		{http.MethodGet, one, 0, a.show},
		{http.MethodPatch, one, 32 << 10, a.change},
		{http.MethodDelete, one, 0, a.delete},
		{http.MethodPost, one + "/rotate", 32 << 10, a.rotate},
		{http.MethodPost, one + "/test", 0, a.test},
	} {
		operation := func(ctx context.Context, c *call) (_ *web.Answer, err error) {
			var id uuid.UUID
			if route.path != all {
				if id, err = web.PathID(c.Request, "webhookId"); err != nil {
					return nil, err
				}
			}
			return route.handle(ctx, c, id)
		}
		router.Handle(route.path, a.Partners.Handle(auth.Route[*auth.Integration]{MaxBody: route.maxBody}, operation)).
			Methods(route.method)
	}
}

// withSecret is a webhook with its new secret, which is not shown again.
type withSecret struct {
	Webhook
	Secret string `json:"secret"`
}

// types is the member types of a body: kinds of change, or null for all.
type types struct {
	given bool
	kinds []string
}

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (t *types) UnmarshalJSONFrom(decoder *jsontext.Decoder) error {
	t.given = true
	return json.UnmarshalDecode(decoder, &t.kinds)
}

// check refuses an invalid address, unless it is nil, and invalid types.
func (a *API) check(address *string, t types) error {
	if address != nil {
		if wrong := a.Sender.checkURL(*address); wrong != "" {
			return problem.InvalidField("url", wrong)
		}
	}
	known := events.ChangeKinds()
	if n := len(t.kinds); t.kinds != nil && (n == 0 || n > len(known)) {
		return problem.InvalidField("types", fmt.Sprintf("must have 1 to %d entries, got %d", len(known), n))
	}
	for i, kind := range t.kinds {
		if !slices.Contains(known, kind) {
			return problem.InvalidField(fmt.Sprintf("types[%d]", i), "must be one of "+strings.Join(known, ", "))
		}
	}
	return nil
}

// create handles POST /api/integrations/webhooks.
func (a *API) create(ctx context.Context, c *call, _ uuid.UUID) (*web.Answer, error) {
	var body struct {
		URL   string `json:"url"`
		Types types  `json:"types"`
	}
	if err := web.Decode(c.Body, &body, "types"); err != nil {
		return nil, err
	}
	if err := a.check(&body.URL, body.Types); err != nil {
		return nil, err
	}
	made, secret, err := a.Store.create(ctx, c.Caller.IntegrationID, body.URL, body.Types.kinds)
	return &web.Answer{
		Status: http.StatusCreated, Location: c.Request.URL.Path + "/" + made.ID.String(),
		Body: withSecret{made.Webhook, secret},
	}, err
}

// list handles GET /api/integrations/webhooks.
func (a *API) list(ctx context.Context, c *call, _ uuid.UUID) (*web.Answer, error) {
	found, err := a.Store.List(ctx, c.Caller.IntegrationID)
	page := struct {
		Items []Webhook `json:"items"`
	}{[]Webhook{}}
	for i := range found {
		page.Items = append(page.Items, found[i].Webhook)
	}
	return &web.Answer{Body: page}, err
}

// show handles GET /api/integrations/webhooks/{webhookId}.
func (a *API) show(ctx context.Context, c *call, id uuid.UUID) (*web.Answer, error) {
	found, err := a.Store.Find(ctx, c.Caller.IntegrationID, id)
	return &web.Answer{Body: found.Webhook}, err
}

// change handles PATCH /api/integrations/webhooks/{webhookId}.
func (a *API) change(ctx context.Context, c *call, id uuid.UUID) (*web.Answer, error) {
	var to settingsPatch
	if err := web.Decode(c.Body, &to, "url", "types", "enabled", "since"); err != nil {
		return nil, err
	}
	if err := a.check(to.URL, to.Types); err != nil {
		return nil, err
	}
	var since *time.Time
	if to.Since != nil {
		moment, err := web.ParseTime(*to.Since)
		if err != nil {
			return nil, problem.InvalidField("since", err.Error())
		}
		since = &moment
	}
	changed, err := a.Store.change(ctx, c.Caller.IntegrationID, id, to, since)
	return &web.Answer{Body: changed.Webhook}, err
}

// delete handles DELETE /api/integrations/webhooks/{webhookId}.
func (a *API) delete(ctx context.Context, c *call, id uuid.UUID) (*web.Answer, error) {
	return &web.Answer{}, a.Store.delete(ctx, c.Caller.IntegrationID, id)
}

// rotate handles POST /api/integrations/webhooks/{webhookId}/rotate.
func (a *API) rotate(ctx context.Context, c *call, id uuid.UUID) (*web.Answer, error) {
	const day = 24 * 60 * 60
	var body struct {
		OverlapSeconds *int64 `json:"overlapSeconds"`
	}
	if err := web.Decode(c.Body, &body, "overlapSeconds"); err != nil {
		return nil, err
	}
	overlap := int64(day)
	if body.OverlapSeconds != nil {
		if overlap = *body.OverlapSeconds; overlap < 0 || overlap > 7*day {
			return nil, problem.InvalidField("overlapSeconds", fmt.Sprintf("must be a number from 0 to %d", 7*day))
		}
	}
	made, secret, err := a.Store.rotate(ctx, c.Caller.IntegrationID, id, time.Duration(overlap)*time.Second)
	return &web.Answer{Body: withSecret{made.Webhook, secret}}, err
}

// test handles POST /api/integrations/webhooks/{webhookId}/test: it sends a message at once and returns the outcome.
func (a *API) test(ctx context.Context, c *call, id uuid.UUID) (*web.Answer, error) {
	outcome, err := a.Sender.Test(ctx, c.Writer, a.Store, c.Caller.IntegrationID, id)
	return &web.Answer{Body: outcome}, err
}

// Test sends a message to a webhook of an integration at once, and returns the outcome. The endpoint may take longer
// than ctx lasts and than the answer to w usually may, whose deadline Test extends.
func (s *Sender) Test(
	ctx context.Context, w http.ResponseWriter, store *Store, integration, id uuid.UUID,
) (Outcome, error) {
	address, secrets, err := store.secrets(ctx, integration, id)
	if err != nil {
		return Outcome{}, err
	}
	message := "msg_test_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	body, err := json.Marshal(map[string]any{
		"id": message, "type": "webhook.test", "occurredAt": s.now().UTC(), "cursor": "",
		"data": map[string]any{"webhookId": id},
	}, json.Deterministic(true))
	if err != nil {
		return Outcome{}, fmt.Errorf("encode test: %w", err)
	}
	// A recorder in a test has no deadlines.
	_ = http.NewResponseController(w).SetWriteDeadline(s.now().Add(attemptTime + 5*time.Second))
	return s.send(context.WithoutCancel(ctx), address, message, body, secrets...), nil
}
