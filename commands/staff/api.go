package staff

import (
	"bytes"
	"context"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"github.com/gorilla/mux"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/aggregates/principal"
	"novelgate/commands/refusals"
	"novelgate/internal/auth"
	"novelgate/internal/problem"
	"novelgate/internal/web"
)

// API serves staff. The Problems of its Kit must include Problem.
type API struct {
	*web.Kit

	Staff *auth.Staff
	Pool  *pgxpool.Pool
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
	integrationsPath = "/api/admin/integrations"
	integrationPath  = integrationsPath + "/{integrationId}"
	keysPath         = "/api/admin/keys"
	keyPath          = keysPath + "/{keyId}"
	novelsPath       = "/api/admin/novels"
	novelPath        = novelsPath + "/{novelId}"
	postsPath        = "/api/admin/posts"
	postPath         = postsPath + "/{postId}"
	webhooksPath     = "/api/admin/webhooks"
	webhookPath      = webhooksPath + "/{webhookId}"
	// The uuid of an author is the partner's and may contain any character. The operation refuses an empty one.
	authorPath = integrationPath + "/authors/{uuid:[^/]*}"
)

// Register adds the routes to router.
func (a *API) Register(router *mux.Router) {
	for _, r := range []route{
		{http.MethodPost, integrationsPath, withBody(createIntegration), "integrations", nil},
		{http.MethodGet, integrationsPath, listIntegrations, "", []string{"limit", "cursor"}},
		{http.MethodGet, integrationPath, showIntegration, "", nil},
		{http.MethodPatch, integrationPath, withBody(changeIntegration), "", nil},
		{http.MethodPost, integrationPath + "/keys", withBody(issueKey), "integrations/*/keys", nil},
		{http.MethodGet, integrationPath + "/keys", listKeysOfIntegration, "", []string{"limit", "cursor"}},
		{http.MethodGet, integrationPath + "/refusals", listRefusals, "", refusals.Parameters()},
		{http.MethodGet, keysPath, listKeys, "", []string{"limit", "cursor"}},
		{http.MethodDelete, keyPath, revokeKey, "", []string{"reason"}},
		{http.MethodPost, keyPath + "/rotate", withBody(rotateKey), "keys/*/rotate", nil},

		{http.MethodPost, novelsPath, publishTitle, "novels/publish", nil},
		{http.MethodPost, novelsPath + "/reject", withBody(rejectTitle), "novels/reject", nil},
		{
			http.MethodGet, novelsPath, listNovels, "",
			[]string{"title", "state", "owner", "text", "limit", "cursor"},
		},
		{http.MethodGet, novelPath, showNovel, "", nil},
		{http.MethodPatch, novelPath, editNovel, "", nil},
		{http.MethodPost, novelPath + "/approve", moderateNovel((*Staff).ApproveByID), "novels/*/approve", nil},
		{http.MethodPost, novelPath + "/reject", moderateNovel((*Staff).RejectByID), "novels/*/reject", nil},
		{http.MethodPost, novelPath + "/publish", moderateNovel((*Staff).PublishByID), "novels/*/publish", nil},

		{http.MethodGet, postsPath, listPosts, "", []string{
			"novel", "author", "integration", "state", "text", "chapter", "from", "to", "sort", "limit", "cursor",
		}},
		{http.MethodPost, postsPath + "/decisions", withBody(decidePosts), "posts/decisions", nil},
		{http.MethodGet, postPath, showPost, "", nil},
		{http.MethodGet, postPath + "/context", showPostContext, "", nil},
		{http.MethodPost, postPath + "/hide", moderatePost((*Staff).HidePost), "posts/*/hide", nil},
		{
			http.MethodPost, postPath + "/dismiss-reports", moderatePost((*Staff).DismissReports),
			"posts/*/dismiss-reports", nil,
		},
		{http.MethodPost, postPath + "/restore", moderatePost((*Staff).RestorePost), "posts/*/restore", nil},

		{http.MethodGet, webhooksPath, listWebhooks, "", []string{"integration"}},
		{http.MethodPut, webhookPath + "/disabled", switchWebhook(false), "", nil},
		{http.MethodPut, webhookPath + "/enabled", switchWebhook(true), "", nil},

		{
			http.MethodGet, integrationPath + "/authors", listAuthors, "", []string{"linked", "blocked", "limit", "cursor"},
		},
		{http.MethodGet, authorPath, showAuthor, "", nil},
		{http.MethodDelete, authorPath, eraseAuthor, "", []string{"reason"}},
		{http.MethodPut, authorPath + "/member", withBody(linkAuthor), "", nil},
		{http.MethodDelete, authorPath + "/member", unlinkAuthor, "", []string{"reason"}},
		{http.MethodPost, authorPath + "/block", moderateAuthor((*Staff).BlockAuthor), "authors/*/block", nil},
		{http.MethodPost, authorPath + "/unblock", moderateAuthor((*Staff).UnblockAuthor), "authors/*/unblock", nil},
		{
			http.MethodPost, authorPath + "/hide-posts", moderateAuthor((*Staff).HideAuthorPosts),
			"authors/*/hide-posts", nil,
		},
		{
			http.MethodPost, authorPath + "/restore-posts", moderateAuthor((*Staff).RestoreAuthorPosts),
			"authors/*/restore-posts", nil,
		},
	} {
		router.Handle(r.path, a.handler(r)).Methods(r.method)
	}
}

// call is one request of a member of staff.
type call struct {
	*auth.Call[*auth.StaffUser]
	query  *web.Query
	staff  *Staff
	id     uuid.UUID  // id of the object in the path; for an author, of the integration
	author AuthorName // in the path
}

// operation executes a request.
type operation func(ctx context.Context, c *call) (*web.Answer, error)

// handler serves a route. After those of auth.Callers.Handle, the checks run in this order: query, path, idempotency
// key, and then, in the operation, the body.
func (a *API) handler(rt route) http.Handler {
	admitted := auth.Route[*auth.StaffUser]{Allowed: func(caller *auth.StaffUser) error {
		if caller.Role != principal.Staff {
			return problem.New(problem.CodeForbidden, "This key belongs to an auditor. This operation is for staff.")
		}
		return nil
	}}
	switch rt.method {
	case http.MethodPost, http.MethodPut, http.MethodPatch:
		admitted.MaxBody = 32 << 10
	}
	return a.Staff.Handle(admitted, func(
		ctx context.Context, in *auth.Call[*auth.StaffUser],
	) (_ *web.Answer, err error) {
		c := &call{Call: in}
		if c.query, err = web.ReadStrictQuery(c.Request.URL, rt.query...); err != nil {
			return nil, err
		}
		c.staff = &Staff{Pool: a.Pool, Actor: "staff:" + c.Caller.Name, Now: a.Now}
		if err := c.readPath(); err != nil {
			return nil, err
		}
		if c.staff.Delivery, err = c.delivery(ctx, rt.source); err != nil {
			return nil, err
		}
		return rt.handle(ctx, c)
	})
}

// readPath reads the object in the path.
func (c *call) readPath() (err error) {
	for name, value := range mux.Vars(c.Request) {
		if name == "uuid" {
			c.author.ExternalUUID = value
			continue
		}
		if c.id, err = web.PathID(c.Request, name); err != nil {
			return err
		}
		c.author.IntegrationID = c.id
	}
	return nil
}

// delivery returns the delivery that makes a command idempotent; nil for a route without a source. The scope of an
// Idempotency-Key is the staff user, the operation and its object.
func (c *call) delivery(ctx context.Context, source string) (*Delivery, error) {
	if source == "" {
		return nil, nil
	}
	key, err := web.IdempotencyKey(c.Request.Header)
	if err != nil {
		return nil, err
	}
	object := c.id
	if strings.HasPrefix(source, "authors/") {
		// A source cannot be erased, so it contains the derived id instead of the partner's identifier, which is personal
		// data.
		if object, err = c.author.ID(ctx, c.staff.Pool); err != nil {
			return nil, err
		}
	}
	canonical := jsontext.Value(bytes.Clone(c.Body))
	_ = canonical.Canonicalize() // the operation refuses an invalid body
	return &Delivery{
		Key: key, Source: "staff/" + c.Caller.ID.String() + "/" + strings.Replace(source, "*", object.String(), 1),
		Canonical: canonical,
	}, nil
}
