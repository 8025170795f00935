// Package admin serves the routes for staff below /api/admin. It parses requests and calls package staff, like the
// command line. docs/staff.md and docs/openapi.yaml describe the routes.
package admin

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/gorilla/mux"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/aggregates/principal"
	"novelgate/commands/access"
	"novelgate/commands/request"
	"novelgate/commands/staff"
	"novelgate/events"
	"novelgate/internal/httpkit"
	"novelgate/internal/problem"
)

// Authenticator authenticates the key of a staff user.
type Authenticator interface {
	AuthenticateStaffUser(ctx context.Context, key string) (*access.StaffUser, error)
	Authenticate(ctx context.Context, key string) (*access.Integration, error)
}

// API serves staff. The Problems of its Kit must include Problem.
type API struct {
	*httpkit.Kit

	Keys Authenticator
	Pool *pgxpool.Pool
}

// route is an operation of staff. The path variable of an id is named after the object, such as novelId.
type route struct {
	method, path string
	handle       operation
	// source makes a command idempotent: its CloudEvents source is "staff/", the id of the staff user, "/" and this text,
	// in which "*" stands for the id of the object in the path. "": the command takes no Idempotency-Key.
	source string
	query  []string // names of the accepted parameters
}

const (
	integrationPath = "/api/admin/integrations/{integrationId}"
	keyPath         = "/api/admin/keys/{keyId}"
	novelPath       = "/api/admin/novels/{novelId}"
	postPath        = "/api/admin/posts/{postId}"
	webhookPath     = "/api/admin/webhooks/{webhookId}"
	// The uuid of an author is the partner's and may contain any character, so the router matches its percent-encoded
	// form. The operation refuses an empty one.
	authorPath = integrationPath + "/authors/{uuid:[^/]*}"
)

// Register adds the routes to router.
func (a *API) Register(router *mux.Router) {
	// The subrouter has no PathPrefix: with one, mux would answer a wrong method with 404 instead of 405.
	encoded := router.NewRoute().Subrouter().UseEncodedPath()
	for _, r := range []route{
		{http.MethodPost, "/api/admin/integrations", withBody(createIntegration), "integrations", nil},
		{http.MethodGet, "/api/admin/integrations", listIntegrations, "", []string{"limit", "cursor"}},
		{http.MethodGet, integrationPath, showIntegration, "", nil},
		{http.MethodPatch, integrationPath, withBody(changeIntegration), "", nil},
		{http.MethodPost, integrationPath + "/keys", withBody(issueKey), "integrations/*/keys", nil},
		{http.MethodGet, integrationPath + "/keys", listKeys, "", []string{"limit", "cursor"}},
		{http.MethodDelete, keyPath, revokeKey, "", []string{"reason"}},
		{http.MethodPost, keyPath + "/rotate", withBody(rotateKey), "keys/*/rotate", nil},

		{http.MethodPost, "/api/admin/novels", publishTitle, "novels/publish", nil},
		{http.MethodPost, "/api/admin/novels/reject", withBody(rejectTitle), "novels/reject", nil},
		{http.MethodGet, "/api/admin/novels", listNovels, "", []string{"state", "owner", "text", "limit", "cursor"}},
		{http.MethodGet, novelPath, showNovel, "", nil},
		{http.MethodPatch, novelPath, editNovel, "", nil},
		{http.MethodPost, novelPath + "/approve", moderateNovel((*staff.Staff).ApproveByID), "novels/*/approve", nil},
		{http.MethodPost, novelPath + "/reject", moderateNovel((*staff.Staff).RejectByID), "novels/*/reject", nil},
		{http.MethodPost, novelPath + "/publish", moderateNovel((*staff.Staff).PublishByID), "novels/*/publish", nil},

		{http.MethodGet, postPath, showPost, "", nil},
		{http.MethodPost, postPath + "/hide", moderatePost((*staff.Staff).HidePost), "posts/*/hide", nil},
		{http.MethodPost, postPath + "/restore", moderatePost((*staff.Staff).RestorePost), "posts/*/restore", nil},

		{http.MethodGet, "/api/admin/webhooks", listWebhooks, "", []string{"integration"}},
		{http.MethodPut, webhookPath + "/disabled", switchWebhook(false), "", nil},
		{http.MethodPut, webhookPath + "/enabled", switchWebhook(true), "", nil},

		{
			http.MethodGet, integrationPath + "/authors", listAuthors, "", []string{"linked", "blocked", "limit", "cursor"},
		},
		{http.MethodGet, authorPath, showAuthor, "", nil},
		{http.MethodDelete, authorPath, eraseAuthor, "", []string{"reason"}},
		{http.MethodPut, authorPath + "/member", withBody(linkAuthor), "", nil},
		{http.MethodDelete, authorPath + "/member", unlinkAuthor, "", []string{"reason"}},
		{http.MethodPost, authorPath + "/block", moderateAuthor((*staff.Staff).BlockAuthor), "authors/*/block", nil},
		{http.MethodPost, authorPath + "/unblock", moderateAuthor((*staff.Staff).UnblockAuthor), "authors/*/unblock", nil},
		{
			http.MethodPost, authorPath + "/hide-posts", moderateAuthor((*staff.Staff).HideAuthorPosts),
			"authors/*/hide-posts", nil,
		},
		{
			http.MethodPost, authorPath + "/restore-posts", moderateAuthor((*staff.Staff).RestoreAuthorPosts),
			"authors/*/restore-posts", nil,
		},
	} {
		on := router
		if strings.HasPrefix(r.path, integrationPath+"/authors") {
			on = encoded
		}
		on.Handle(r.path, a.handler(r)).Methods(r.method)
	}
}

// maxBody is the largest request body, in bytes.
const maxBody = 32 << 10

// call is one request of a member of staff.
type call struct {
	*http.Request
	query   *httpkit.Query
	staff   *staff.Staff
	caller  *access.StaffUser
	id      uuid.UUID        // id of the object in the path; for an author, of the integration
	author  staff.AuthorName // in the path
	body    []byte
	bodyErr error // set if the body could not be read; operations with a body return it
}

// output is a successful response. Without a body the status is 204.
type output struct {
	status   int
	body     any
	replayed bool // the request is a retry
	mismatch bool // the recorded command was different
}

// operation executes a request.
type operation func(ctx context.Context, c *call) (*output, error)

// handler serves a route. It reads the body before the request counts towards the limit of StaffReaders, so that a slow
// body does not take the place of another request. The checks run in this order: key (401, 403), query, path,
// idempotency key, and then, in the operation, the body.
func (a *API) handler(rt route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller, err := a.authenticate(r)
		if err != nil {
			a.Fail(w, r, err)
			return
		}
		c := &call{caller: caller}
		c.body, c.bodyErr = a.ReadJSON(w, r, uuid.Nil, maxBody) // uuid.Nil: the caller is not an integration
		defer a.ReleaseBody(uuid.Nil, c.body)
		if _, err := a.authenticate(r); err != nil { // the key may have been revoked while the body arrived
			a.Fail(w, r, err)
			return
		}
		a.StaffReaders.Limit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			c.Request = r
			a.serve(r.Context(), w, c, rt)
		}), a.Fail).ServeHTTP(w, r)
	})
}

// authenticate returns the member of staff whose key is in the request, and refuses all other keys.
func (a *API) authenticate(r *http.Request) (*access.StaffUser, error) {
	ctx, cancel := a.WithTimeout(r.Context())
	defer cancel()
	caller, err := AuthenticateStaffUser(ctx, a.Keys, r.Header, "staff key", "staff")
	if err == nil && caller.Role != principal.Staff {
		err = problem.Forbidden("This key belongs to an auditor. This operation is for staff.")
	}
	if err != nil {
		a.DelayRefusal(r, uuid.Nil, err)
	}
	return caller, err
}

// AuthenticateStaffUser authenticates the staff user of a request. It answers 403 to the key of an integration. key and
// audience name the expected key and its owners in error texts. The error is a *problem.Error, except when the look-up
// of the key failed.
func AuthenticateStaffUser(
	ctx context.Context, keys Authenticator, h http.Header, key, audience string,
) (*access.StaffUser, error) {
	secret, err := httpkit.Bearer(h, key)
	if err != nil {
		return nil, err
	}
	found, err := keys.AuthenticateStaffUser(ctx, secret)
	switch {
	case err == nil:
		return found, nil
	case errors.Is(err, access.ErrMalformed): // also returned for a key of another kind
		switch _, err := keys.Authenticate(ctx, secret); {
		case err == nil:
			return nil, problem.Forbidden("This key belongs to an integration. This operation is for " + audience + ".")
		case errors.Is(err, access.ErrMalformed), errors.Is(err, access.ErrUnknown), errors.Is(err, access.ErrExpired):
			return nil, problem.Unauthorized("The " + key + " is not valid.")
		default:
			return nil, err
		}
	case errors.Is(err, access.ErrUnknown):
		return nil, problem.Unauthorized("The " + key + " is not valid.")
	case errors.Is(err, access.ErrExpired):
		return nil, problem.Unauthorized("The " + key + " has expired.")
	default:
		return nil, err
	}
}

// serve executes a request and sends the response.
func (a *API) serve(ctx context.Context, w http.ResponseWriter, c *call, rt route) {
	ctx, cancel := a.WithTimeout(ctx)
	defer cancel()
	var out *output
	var encoded []byte
	if err := a.StaffReaders.Make(ctx, func() (err error) {
		if c.query, err = httpkit.ReadStrictQuery(c.URL, rt.query...); err != nil {
			return err
		}
		c.staff = &staff.Staff{Pool: a.Pool, Actor: "staff:" + c.caller.Name, Now: a.Now}
		if err := c.readPath(); err != nil {
			return err
		}
		if c.staff.Delivery, err = c.delivery(rt.source); err != nil {
			return err
		}
		if out, err = rt.handle(ctx, c); err == nil {
			encoded, err = json.Marshal(out.body)
		}
		return err
	}); err != nil {
		a.Fail(w, c.Request, err)
		return
	}
	w.Header().Set("Cache-Control", "no-store") // a response may contain a key
	httpkit.SetReplayed(w.Header(), out.replayed, out.mismatch)
	if out.body == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(out.status)
	_, _ = w.Write(encoded) // it fails only if the client has closed the connection
}

// readPath reads the object in the path.
func (c *call) readPath() (err error) {
	for name, value := range mux.Vars(c.Request) {
		if name == "uuid" {
			if c.author.ExternalUUID, err = url.PathUnescape(value); err != nil {
				return problem.NotFound() // unreachable: the server has parsed the path
			}
			continue
		}
		if c.id, err = httpkit.PathID(c.Request, name); err != nil {
			return err
		}
		c.author.IntegrationID = c.id
	}
	return nil
}

// delivery returns the delivery that makes a command idempotent; nil for a route without a source. The scope of an
// Idempotency-Key is the staff user, the operation and its object.
func (c *call) delivery(source string) (*staff.Delivery, error) {
	if source == "" {
		return nil, nil
	}
	key, err := request.IdempotencyKey(c.Header)
	if err != nil {
		return nil, err
	}
	object := c.id
	if strings.HasPrefix(source, "authors/") {
		// A source cannot be erased, so it contains the derived id instead of the partner's identifier, which is personal
		// data.
		object = events.AuthorID(c.author.IntegrationID, c.author.ExternalUUID)
	}
	return &staff.Delivery{
		Key: key, Source: "staff/" + c.caller.ID.String() + "/" + strings.Replace(source, "*", object.String(), 1),
	}, nil
}
