package refusals

import (
	"context"
	_ "embed"
	"net/http"

	"github.com/google/uuid"
	"github.com/gorilla/mux"
	"github.com/jackc/pgx/v5"

	"novelgate/internal/auth"
	"novelgate/internal/database"
	"novelgate/internal/problem"
	"novelgate/internal/web"
)

// Filter selects refusals of an integration. Empty fields select all.
type Filter struct {
	IntegrationID uuid.UUID
	Code          string
	Operation     string
	Key           string
	RequestID     string    // of a line in bulk with / and its number
	Before        uuid.UUID // the refusal before which a page begins; uuid.Nil: with the newest
	Limit         int       // 0: no limit
}

//go:embed list.sql
var listSQL string

// List returns refusals, newest first.
func List(ctx context.Context, db database.Querier, f Filter) ([]Refusal, error) {
	return database.Collect(ctx, db, "refusals", func(row pgx.CollectableRow) (r Refusal, err error) {
		err = row.Scan(&r.ID, &r.RefusedAt, &r.RequestID, &r.Operation, &r.IdempotencyKey, &r.Code, &r.Field, &r.Detail)
		database.UTC(&r.RefusedAt)
		return r, err
	}, listSQL, f.IntegrationID, f.Before, f.Code, f.Operation, f.Key, f.Limit,
		f.RequestID)
}

// Parameters are the parameters of a list.
func Parameters() []string { return []string{"code", "operation", "key", "limit", "cursor"} }

// ListName is the name of the list of an integration in cursors.
func ListName(integration uuid.UUID) string { return "r" + string(integration[:]) }

// Page answers a request for the refusals of an integration. The query has only Parameters.
func Page(ctx context.Context, db database.Querier, query *web.Query, integration uuid.UUID) (*web.Answer, error) {
	codes := make([]string, 0, len(problem.All()))
	for _, code := range problem.All() {
		codes = append(codes, string(code))
	}
	limit, list := query.Limit(50, 100), ListName(integration)
	f := Filter{
		IntegrationID: integration, Code: query.OneOf("code", codes...), Operation: query.OneOf("operation", Operations()...),
		Key: auth.Redact(query.Text("key")), Limit: limit + 1,
	}
	if after := query.Cursor(list); after != "" {
		var ok bool
		if f.Before, ok = web.ParseID(after); !ok {
			query.RefuseCursor()
		}
	}
	if err := query.Err(); err != nil {
		return nil, err
	}
	found, err := List(ctx, db, f)
	return &web.Answer{Body: web.NewPage(list, found, limit, func(r *Refusal) string { return r.ID.String() })}, err
}

// API serves refusals to partners.
type API struct {
	Partners *auth.Partners
	DB       database.Querier
}

// Register adds the route to router.
func (a *API) Register(router *mux.Router) {
	router.Handle("/api/integrations/refusals", a.Partners.Handle(auth.Route[*auth.Integration]{},
		func(ctx context.Context, c *auth.Call[*auth.Integration]) (*web.Answer, error) {
			query, err := web.ReadStrictQuery(c.Request.URL, Parameters()...)
			if err != nil {
				return nil, err
			}
			return Page(ctx, a.DB, query, c.Caller.IntegrationID)
		})).Methods(http.MethodGet)
}
