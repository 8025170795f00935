package webhooks

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/gorilla/mux"

	"novelgate/events"
	"novelgate/internal/auth"
	"novelgate/internal/httpkit"
)

// API lets partners manage their webhooks.
type API struct {
	*httpkit.Kit

	Partners *auth.Partners
	Store    *Store
	Sender   *Sender
}

// Register adds the routes to router.
func (a *API) Register(router *mux.Router) {
	const all = "/api/integrations/webhooks"
	const one = all + "/{webhookId}"
	for _, route := range []struct {
		method, path string
		handle       func(context.Context, *call) error
		members      []string // of the body; nil for none
	}{
		{http.MethodPost, all, a.create, []string{"url", "types"}},
		{http.MethodGet, all, a.list, nil},
		{http.MethodGet, one, a.show, nil},
		{http.MethodPatch, one, a.change, []string{"url", "types", "enabled", "since"}},
		{http.MethodDelete, one, a.delete, nil},
		{http.MethodPost, one + "/rotate", a.rotate, []string{"overlapSeconds"}},
		{http.MethodPost, one + "/test", a.test, nil},
	} {
		router.Handle(route.path, a.serve(route.handle, route.members)).Methods(route.method)
	}
}

// call is a request that has passed the common checks.
type call struct {
	w           http.ResponseWriter
	r           *http.Request
	integration uuid.UUID
	id          uuid.UUID // in the path
	body        httpkit.Object
}

// maxBody is the largest request body, in bytes.
const maxBody = 32 << 10

// serve answers a request. Checks run in the order of auth.Callers.Handle, then: JSON of the body (400), path (404),
// members of the body or parameters (400), webhook (404), its state (409).
func (a *API) serve(handle func(context.Context, *call) error, members []string) http.Handler {
	var rt auth.Route[*auth.Integration]
	if members != nil {
		rt.MaxBody = maxBody
	}
	return a.Partners.Handle(rt, func(ctx context.Context, in *auth.Call[*auth.Integration]) (*httpkit.Answer, error) {
		c := &call{w: in.Writer, r: in.Request, integration: in.Caller.IntegrationID, body: httpkit.Object{Strict: true}}
		if members != nil {
			if err := c.body.Parse(in.Body, members); err != nil {
				return nil, err
			}
		}
		if mux.Vars(c.r)["webhookId"] != "" {
			var err error
			if c.id, err = httpkit.PathID(c.r, "webhookId"); err != nil {
				return nil, err
			}
		}
		return nil, handle(ctx, c)
	})
}

// answer sends the result of an action on a webhook.
func (c *call) answer(status int, body any, err error) error {
	if err != nil {
		return err
	}
	return (&httpkit.Answer{Status: status, Body: body}).Send(c.w)
}

// withSecret is a webhook with its new secret, which is not shown again.
type withSecret struct {
	Webhook
	Secret string `json:"secret"`
}

// url reads and checks the member url: the address of an endpoint.
func (a *API) url(c *call, required bool) (string, bool) {
	text, ok := c.body.Text("url", required)
	if ok {
		if wrong := a.Sender.checkURL(text); wrong != "" {
			c.body.Fail("url", "%s", wrong)
		}
	}
	return text, ok
}

// types reads the member types: kinds of change. It is optional and may be null; both give nil.
func (c *call) types() (types []string) {
	kinds := events.ChangeKinds()
	c.body.Texts("types", false, 1, len(kinds), func(field, text string) {
		if !slices.Contains(kinds, text) {
			c.body.Fail(field, "must be one of %s", strings.Join(kinds, ", "))
		}
		types = append(types, text)
	})
	return types
}

// create handles POST /api/integrations/webhooks.
func (a *API) create(ctx context.Context, c *call) error {
	address, _ := a.url(c, true)
	types := c.types()
	if err := c.body.Err(); err != nil {
		return err
	}
	made, secret, err := a.Store.create(ctx, c.integration, address, types)
	if err == nil {
		c.w.Header().Set("Location", c.r.URL.Path+"/"+made.ID.String())
	}
	return c.answer(http.StatusCreated, withSecret{made.Webhook, secret}, err)
}

// list handles GET /api/integrations/webhooks.
func (a *API) list(ctx context.Context, c *call) error {
	found, err := a.Store.List(ctx, c.integration)
	page := struct {
		Items []Webhook `json:"items"`
	}{[]Webhook{}}
	for i := range found {
		page.Items = append(page.Items, found[i].Webhook)
	}
	return c.answer(http.StatusOK, page, err)
}

// show handles GET /api/integrations/webhooks/{webhookId}.
func (a *API) show(ctx context.Context, c *call) error {
	found, err := a.Store.Find(ctx, c.integration, c.id)
	return c.answer(http.StatusOK, found.Webhook, err)
}

// change handles PATCH /api/integrations/webhooks/{webhookId}.
func (a *API) change(ctx context.Context, c *call) error {
	var to settingsPatch
	if address, ok := a.url(c, false); ok {
		to.url = &address
	}
	to.types, to.allTypes = c.types(), c.body.Null("types")
	if enabled, ok := c.body.Bool("enabled"); ok {
		to.enabled = &enabled
	}
	if text, ok := c.body.Text("since", false); ok {
		since, err := httpkit.ParseTime(text)
		if err != nil {
			c.body.Fail("since", "%v", err)
		}
		to.since = &since
	}
	if err := c.body.Err(); err != nil {
		return err
	}
	changed, err := a.Store.change(ctx, c.integration, c.id, to)
	return c.answer(http.StatusOK, changed.Webhook, err)
}

// delete handles DELETE /api/integrations/webhooks/{webhookId}.
func (a *API) delete(ctx context.Context, c *call) error {
	if err := a.Store.delete(ctx, c.integration, c.id); err != nil {
		return err
	}
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

// rotate handles POST /api/integrations/webhooks/{webhookId}/rotate.
func (a *API) rotate(ctx context.Context, c *call) error {
	const day = 24 * 60 * 60
	overlap := int64(day)
	if seconds, ok := c.body.Integer("overlapSeconds"); ok {
		if overlap = seconds; overlap < 0 || overlap > 7*day {
			c.body.Fail("overlapSeconds", "must be a number from 0 to %d", 7*day)
		}
	}
	if err := c.body.Err(); err != nil {
		return err
	}
	made, secret, err := a.Store.rotate(ctx, c.integration, c.id, time.Duration(overlap)*time.Second)
	return c.answer(http.StatusOK, withSecret{made.Webhook, secret}, err)
}

// test handles POST /api/integrations/webhooks/{webhookId}/test: it sends a message at once and returns the outcome.
func (a *API) test(ctx context.Context, c *call) error {
	address, secrets, err := a.Store.secrets(ctx, c.integration, c.id)
	if err != nil {
		return err
	}
	id := "msg_test_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	body, err := json.Marshal(map[string]any{
		"id": id, "type": "webhook.test", "occurredAt": a.Now().UTC(), "cursor": "", "data": map[string]any{"webhookId": c.id},
	}, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("encode test: %w", err)
	}
	// The endpoint may take longer than ctx and the usual write deadline. A recorder in a test has no deadlines.
	_ = http.NewResponseController(c.w).SetWriteDeadline(a.Now().Add(attemptTime + 5*time.Second))
	//nolint:contextcheck // ctx may end before the endpoint must answer
	return c.answer(http.StatusOK, a.Sender.send(c.r.Context(), address, id, body, secrets...), nil)
}
