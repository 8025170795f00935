// Package admin serves the routes for staff below /api/admin. It parses requests and calls package staff, like the
// command line. docs/staff.md and docs/openapi.yaml describe the routes.
package admin

import (
	"context"
	"errors"
	"net/http"

	"github.com/gorilla/mux"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/commands/access"
	"novelgate/commands/staff"
	"novelgate/internal/httpkit"
	"novelgate/internal/problem"
)

// Authenticator authenticates the key of a staff user.
type Authenticator interface {
	AuthenticateStaffUser(ctx context.Context, key string) (*access.StaffUser, error)
	Authenticate(ctx context.Context, key string) (*access.Principal, error)
}

// API serves staff. The Problems of its Kit must include Problem.
type API struct {
	*httpkit.Kit

	Keys Authenticator
	Pool *pgxpool.Pool
}

// The paths of the routes.
const (
	integrationsPath    = "/api/admin/integrations"
	integrationPath     = integrationsPath + "/{integrationId}"
	integrationKeysPath = integrationPath + "/keys"
	keyPath             = "/api/admin/keys/{keyId}"
	novelsPath          = "/api/admin/novels"
	novelPath           = novelsPath + "/{novelId}"
	postPath            = "/api/admin/posts/{postId}"
)

// Register adds the routes to router.
func (a *API) Register(router *mux.Router) {
	for _, route := range []struct {
		method, path string
		handle       operation
		query        []string // names of the accepted parameters
	}{
		{http.MethodPost, integrationsPath, createIntegration, nil},
		{http.MethodGet, integrationsPath, listIntegrations, []string{"limit", "cursor"}},
		{http.MethodGet, integrationPath, showIntegration, nil},
		{http.MethodPatch, integrationPath, changeIntegration, nil},
		{http.MethodPost, integrationKeysPath, issueKey, nil},
		{http.MethodGet, integrationKeysPath, listKeys, []string{"limit", "cursor"}},
		{http.MethodDelete, keyPath, revokeKey, []string{"reason"}},
		{http.MethodPost, keyPath + "/rotate", rotateKey, nil},
		{http.MethodPost, novelsPath, publishTitle, nil},
		{http.MethodPost, novelsPath + "/reject", rejectTitle, nil},
		{http.MethodGet, novelsPath, listNovels, []string{"state", "owner", "text", "limit", "cursor"}},
		{http.MethodGet, novelPath, showNovel, nil},
		{http.MethodPatch, novelPath, editNovel, nil},
		{http.MethodPost, novelPath + "/approve", moderate((*staff.Staff).ApproveByID), nil},
		{http.MethodPost, novelPath + "/reject", moderate((*staff.Staff).RejectByID), nil},
		{http.MethodPost, novelPath + "/publish", moderate((*staff.Staff).PublishByID), nil},
		{http.MethodGet, postPath, showPost, nil},
		{http.MethodPost, postPath + "/hide", moderatePost((*staff.Staff).HidePost), nil},
		{http.MethodPost, postPath + "/restore", moderatePost((*staff.Staff).RestorePost), nil},
	} {
		router.Handle(route.path, a.handler(route.handle, route.query...)).Methods(route.method)
	}
	a.registerAuthorRoutes(router)
}

// AuthenticateStaffUser authenticates the staff user of a request. It answers 403 to the key of an integration. key and
// audience name the expected key and its owners in error texts. The error is a *problem.Error, except when the look-up
// of the key failed.
func AuthenticateStaffUser(
	ctx context.Context, keys Authenticator, h http.Header, key, audience string,
) (*access.StaffUser, error) {
	secret, err := httpkit.Bearer(h, key)
	if err != nil {
		return nil, err //nolint:wrapcheck // already a problem
	}
	found, err := keys.AuthenticateStaffUser(ctx, secret)
	switch {
	case err == nil:
		return found, nil
	case errors.Is(err, access.ErrMalformed):
		if _, err := keys.Authenticate(ctx, secret); err == nil {
			return nil, problem.Forbidden("This key belongs to an integration. This operation is for " + audience + ".")
		}
		return nil, problem.Unauthorized("The " + key + " is not valid.")
	case errors.Is(err, access.ErrUnknown):
		return nil, problem.Unauthorized("The " + key + " is not valid.")
	case errors.Is(err, access.ErrExpired):
		return nil, problem.Unauthorized("The " + key + " has expired.")
	default:
		return nil, err
	}
}
