package console

import (
	"context"
	"net/url"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/commands"
	"novelgate/commands/ratelimit"
	refused "novelgate/commands/refusals"
	"novelgate/commands/staff"
	"novelgate/events"
	"novelgate/internal/auth"
	"novelgate/internal/database"
	"novelgate/internal/problem"
	"novelgate/internal/web"
)

var deliveryFilters = []string{"code", "operation", "key", "request", "cursor"}

// deliveriesBody is what became of deliveries of an integration: those with a key or of a request, and refusals.
type deliveriesBody struct {
	Partner    staff.Integration
	Path       string     // without filters
	Filter     url.Values // as sent
	Codes      []problem.Code
	Operations []string
	Searched   bool // for a key or a request
	Found      []commands.Found
	Refusals   []refused.Refusal
	Next       string // path; "" on the last page
}

// requestSQL has the novels and comments about which the request $2 of the integration $1 has recorded something. The
// log has no index of requests, so only the latest fifty thousand events are read.
const requestSQL = `SELECT e.stream_type, e.stream_id, min(e.recorded_at)
FROM (
    SELECT stream_type, stream_id, recorded_at, integration_id, request_id FROM events
    ORDER BY log_index DESC LIMIT 50000
) AS e
WHERE e.integration_id = $1 AND split_part(e.request_id, '/', 1) = $2 AND e.stream_type IN ('novel', 'post')
GROUP BY 1, 2 ORDER BY 3 LIMIT 50`

func (c *Console) deliveries(ctx context.Context, v *visit) (*view, error) {
	of, err := c.find(ctx, v)
	if err != nil {
		return nil, err
	}
	body := &deliveriesBody{
		Partner: of, Path: "/partners/" + of.ID.String() + "/deliveries", Filter: v.URL.Query(), Codes: problem.All(),
		Operations: refused.Operations(),
	}
	codes := make([]string, len(body.Codes))
	for i, code := range body.Codes {
		codes[i] = string(code)
	}
	key := v.query.Text("key")
	if key != "" {
		var wrong string
		if key, wrong = web.ParseKey(key); wrong != "" {
			v.query.Refuse("key", wrong)
		}
	}
	f := refused.Filter{
		IntegrationID: of.ID, Code: v.query.OneOf("code", codes...),
		Operation: v.query.OneOf("operation", body.Operations...), Key: auth.Redact(key),
		RequestID: auth.Redact(v.query.Text("request")), Before: v.query.ID("cursor").UUID, Limit: pageSize + 1,
	}
	if err := v.query.Err(); err != nil {
		return nil, err
	}
	if body.Refusals, err = v.staff.ListRefusals(ctx, f); err != nil {
		return nil, err
	}
	if len(body.Refusals) > pageSize {
		body.Refusals = body.Refusals[:pageSize]
		body.Next = nextPage(v, "cursor", body.Refusals[pageSize-1].ID.String())
	}
	if body.Searched = key != "" || f.RequestID != ""; body.Searched {
		if body.Found, err = c.findDeliveries(ctx, of.ID, key, f.RequestID); err != nil {
			return nil, err
		}
	}
	return &view{template: "deliveries", title: "Deliveries of " + of.Name, body: body}, nil
}

// findDeliveries returns what commands with a key, or of a request, have recorded.
func (c *Console) findDeliveries(
	ctx context.Context, integration uuid.UUID, key, request string,
) ([]commands.Found, error) {
	if key != "" {
		return commands.FindDeliveries(ctx, c.Pool, integration, key)
	}
	return database.Collect(ctx, c.Pool, "deliveries of a request", func(row pgx.CollectableRow) (commands.Found, error) {
		var kind string
		var subject uuid.UUID
		var at time.Time
		err := row.Scan(&kind, &subject, &at)
		operation := ratelimit.Posts
		if kind == events.NovelStream {
			operation = ratelimit.Novels
		}
		return commands.Found{Operation: operation, SubjectID: subject, ReceivedAt: at}, err
	}, requestSQL, integration, request)
}
