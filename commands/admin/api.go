package admin

import (
	"context"
	"net/http"

	"github.com/gorilla/mux"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/commands/access"
	"novelgate/commands/staff"
	"novelgate/internal/httpkit"
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
