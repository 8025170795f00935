package commands

import (
	"context"
	_ "embed"
	"fmt"
	"net/http"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/commands/ratelimit"
	"novelgate/commands/request"
	"novelgate/events"
	"novelgate/internal/httpkit"
)

// Limits of one reconciliation.
const (
	maxReconcileBody = 512 << 10 // bytes
	maxReconcileKeys = 1_000
)

// reconcileResponse lists the deliveries that have to be sent again.
type reconcileResponse struct {
	Missing []string `json:"missing"` // as sent, in the order sent, each once
	Present int      `json:"present"` // different keys that are on record
}

var (
	//go:embed reconcile_novels.sql
	reconcileNovelsSQL string
	//go:embed reconcile_posts.sql
	reconcilePostsSQL string
)

func (a *API) reconcileRoute() *route {
	return &route{
		method: http.MethodPost, path: "/api/integrations/deliveries/reconcile", maxBody: maxReconcileBody,
		handle: a.reconcile,
	}
}

// reconcile handles POST /api/integrations/deliveries/reconcile.
func (a *API) reconcile(ctx context.Context, in *input) (*output, error) {
	body, err := decodeReconcile(in.body)
	if err != nil {
		return nil, err //nolint:wrapcheck // already a problem
	}
	sql, args := reconcileNovelsSQL, []any{body.keys, in.IntegrationID}
	if body.operation == ratelimit.Posts {
		postIDs := make([]uuid.UUID, len(body.keys))
		for i, key := range body.keys {
			postIDs[i] = events.PostID(in.IntegrationID, key)
		}
		sql, args = reconcilePostsSQL, []any{body.keys, postIDs}
	}
	found, err := queryStored(ctx, a.Records, sql, args, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("reconcile deliveries: %w", err)
	}
	onRecord := make(map[string]bool, len(found))
	for _, key := range found {
		onRecord[key] = true
	}
	response := reconcileResponse{Present: len(onRecord)}
	for i, key := range body.keys {
		if !onRecord[key] {
			response.Missing = append(response.Missing, body.sent[i])
		}
	}
	return &output{status: http.StatusOK, body: response}, nil
}

// reconciliation is a validated body: distinct keys, each with the form in which it was first sent.
type reconciliation struct {
	operation  ratelimit.Operation
	keys, sent []string
}

var reconcileNames = []string{"operation", "idempotencyKeys"}

// decodeReconcile decodes and validates a body as strictly as the body of a command. The error is a *problem.Error.
func decodeReconcile(body []byte) (reconciliation, error) {
	var o httpkit.Object
	var r reconciliation
	if err := o.Parse(body, reconcileNames); err != nil {
		return r, err //nolint:wrapcheck // already a problem
	}
	if name, ok := o.Text("operation", true); ok {
		if r.operation, ok = parseOperation(name); !ok {
			o.Fail("operation", operationWanted)
		}
	}
	seen := map[string]bool{}
	o.Texts("idempotencyKeys", true, 1, maxReconcileKeys, func(field, sent string) {
		key, wrong := request.ParseKey(sent)
		switch {
		case wrong != "":
			o.Fail(field, "%s", wrong)
		case !seen[key]:
			seen[key] = true
			r.keys, r.sent = append(r.keys, key), append(r.sent, sent)
		}
	})
	return r, o.Err() //nolint:wrapcheck // already a problem
}
