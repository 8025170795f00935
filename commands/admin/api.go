package admin

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/gorilla/mux"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/commands/access"
	"novelgate/commands/staff"
)

// Authenticator finds out which person's key a request carries.
type Authenticator interface {
	AuthenticatePerson(ctx context.Context, key string) (*access.Person, error)
	Authenticate(ctx context.Context, key string) (*access.Principal, error)
}

// API serves staff.
type API struct {
	Keys    Authenticator
	Pool    *pgxpool.Pool
	Logger  *slog.Logger
	Timeout time.Duration // within which every request is answered
	Now     func() time.Time
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
	}{
		{http.MethodPost, integrationsPath, createIntegration},
		{http.MethodGet, integrationsPath, listIntegrations},
		{http.MethodGet, integrationPath, showIntegration},
		{http.MethodPatch, integrationPath, changeIntegration},
		{http.MethodPost, integrationKeysPath, issueKey},
		{http.MethodGet, integrationKeysPath, listKeys},
		{http.MethodDelete, keyPath, revokeKey},
		{http.MethodPost, keyPath + "/rotate", rotateKey},
		{http.MethodPost, novelsPath, publishTitle},
		{http.MethodPost, novelsPath + "/reject", rejectTitle},
		{http.MethodGet, novelsPath, listNovels},
		{http.MethodGet, novelPath, showNovel},
		{http.MethodPatch, novelPath, editNovel},
		{http.MethodPost, novelPath + "/approve", moderate((*staff.Staff).ApproveByID)},
		{http.MethodPost, novelPath + "/reject", moderate((*staff.Staff).RejectByID)},
		{http.MethodPost, novelPath + "/publish", moderate((*staff.Staff).PublishByID)},
		{http.MethodGet, postPath, showPost},
		{http.MethodPost, postPath + "/hide", moderatePost((*staff.Staff).HidePost)},
		{http.MethodPost, postPath + "/restore", moderatePost((*staff.Staff).RestorePost)},
	} {
		router.Handle(route.path, a.handler(route.handle)).Methods(route.method)
	}
	a.registerAuthorRoutes(router)
}
