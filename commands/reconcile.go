package commands

import (
	"context"
	_ "embed"
	"fmt"
	"net/http"

	"github.com/jackc/pgx/v5"

	"novelgate/commands/ratelimit"
	"novelgate/commands/request"
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

//go:embed reconcile.sql
var reconcileSQL string

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
	found, err := queryStored(ctx, a.Records, reconcileSQL, []any{body.keys, sourceOf(body.operation, in.IntegrationID)},
		pgx.RowTo[string])
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
