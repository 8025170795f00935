package commands

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/gorilla/mux"
	"github.com/jackc/pgx/v5"

	"novelgate/aggregates/author"
	"novelgate/aggregates/novel"
	"novelgate/aggregates/post"
	"novelgate/commands/ratelimit"
	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/database"
	"novelgate/internal/problem"
	"novelgate/internal/web"
)

// novelDelivery is a recorded upsert with the current state of its novel.
type novelDelivery struct {
	Operation      ratelimit.Operation `json:"operation"`
	IdempotencyKey string              `json:"idempotencyKey"`
	ReceivedAt     time.Time           `json:"receivedAt"`
	NovelID        uuid.UUID           `json:"novelId"`
	Slug           string              `json:"slug"`
	URL            string              `json:"url"`
	State          novel.State         `json:"state"`
	Reason         *string             `json:"reason"` // of the rejection; nil in any other state
}

// postDelivery is a recorded comment with its current state and that of its novel.
type postDelivery struct {
	Operation      ratelimit.Operation `json:"operation"`
	IdempotencyKey string              `json:"idempotencyKey"`
	ReceivedAt     time.Time           `json:"receivedAt"`
	PostID         uuid.UUID           `json:"postId"`
	ThreadID       uuid.UUID           `json:"threadId"`
	ParentPostID   *uuid.UUID          `json:"parentPostId"`
	NovelID        uuid.UUID           `json:"novelId"`
	Slug           string              `json:"slug"`
	URL            string              `json:"url"`
	State          novel.State         `json:"state"` // of the novel
	PostState      post.State          `json:"postState"`
	Reason         *string             `json:"reason"` // of staff for hiding the post; nil when it is visible
}

// noDelivery explains why a successful command may have no recorded delivery.
const noDelivery = "No such delivery is on record. Canonical and foreign outcomes and failed requests leave no record."

var (
	//go:embed delivery.sql
	deliverySQL string
	//go:embed novel.sql
	novelSQL string
)

// recordedDelivery is the event with a delivery's key.
type recordedDelivery struct {
	streamID   uuid.UUID
	stored     events.Stored
	recordedAt time.Time
}

// delivery handles GET /api/integrations/deliveries/{idempotencyKey}. It looks up only sources of the calling
// integration, so an integration never sees deliveries of another one.
func (a *API) delivery(ctx context.Context, c *call) (*answer, error) {
	query, err := web.ReadQuery(c.Request.URL)
	if err != nil {
		return nil, err
	}
	operation, ok := parseOperation(query.Text("operation"))
	if !ok {
		return nil, problem.InvalidField("operation", "is required, once, in the query, and "+operationWanted)
	}
	key, wrong := web.ParseKey(mux.Vars(c.Request)["idempotencyKey"])
	if wrong != "" {
		return nil, problem.InvalidIdempotencyKey("The idempotency key in the path " + wrong + ".")
	}

	postID := uuid.NullUUID{UUID: events.PostID(c.Caller.IntegrationID, key), Valid: operation == ratelimit.Posts}
	found, err := queryReplicated(ctx, a.DB, deliverySQL, []any{postID, key, c.Caller.IntegrationID},
		func(row pgx.CollectableRow) (d recordedDelivery, err error) {
			err = row.Scan(&d.streamID, &d.stored.Type, &d.stored.Data, &d.recordedAt)
			return d, err
		})
	switch {
	case err != nil:
		return nil, fmt.Errorf("find delivery: %w", err)
	case len(found) == 0:
		return nil, problem.NotFound().WithDetail(noDelivery)
	case operation == ratelimit.Posts:
		return a.postDelivery(ctx, key, found[0])
	default:
		return a.novelDelivery(ctx, key, found[0])
	}
}

// parseOperation accepts the operations that have deliveries: novels and posts.
func parseOperation(name string) (ratelimit.Operation, bool) {
	operation := ratelimit.Operation(name)
	return operation, operation == ratelimit.Novels || operation == ratelimit.Posts
}

// operationWanted is the error text for any other name.
const operationWanted = "must be novels or posts"

func (a *API) novelDelivery(ctx context.Context, key string, recorded recordedDelivery) (*answer, error) {
	n, reason, err := a.currentNovel(ctx, recorded.streamID)
	if err != nil {
		return nil, err
	}
	return &answer{Body: novelDelivery{
		Operation: ratelimit.Novels, IdempotencyKey: key, ReceivedAt: recorded.recordedAt.UTC(),
		NovelID: n.ID, Slug: n.Slug, URL: a.Addresses.Novel(n.Slug), State: n.State, Reason: reason,
	}}, nil
}

func (a *API) postDelivery(ctx context.Context, key string, recorded recordedDelivery) (*answer, error) {
	imported, err := events.DecodeAs[events.PostImported](recorded.stored)
	if err != nil {
		return nil, err
	}
	n, _, err := a.currentNovel(ctx, imported.NovelID)
	if err != nil {
		return nil, err
	}
	visibility, err := a.postVisibility(ctx, recorded.streamID)
	if err != nil {
		return nil, err
	}
	response := postDelivery{
		Operation: ratelimit.Posts, IdempotencyKey: key, ReceivedAt: recorded.recordedAt.UTC(),
		PostID: recorded.streamID, ThreadID: imported.ThreadID, ParentPostID: imported.ParentPostID,
		NovelID: n.ID, Slug: n.Slug, URL: a.Addresses.Post(n.Slug, recorded.streamID), State: n.State,
		PostState: visibility.State,
	}
	if visibility.State == post.Hidden {
		response.Reason = &visibility.Reason
	}
	return &answer{Body: response}, nil
}

// postVisibility returns whether readers see a post, and why not. It reads the log, so it has no lag.
func (a *API) postVisibility(ctx context.Context, id uuid.UUID) (post.Visibility, error) {
	history, err := eventlog.ReadStream(ctx, a.DB, events.PostStream, id, 0)
	if err != nil {
		return post.Visibility{}, err
	}
	p := post.Fold(history)
	authorID, ok := p.AuthorID()
	if !ok {
		return p.Visibility(author.Author{}), nil
	}
	if history, err = eventlog.ReadStream(ctx, a.DB, events.AuthorStream, authorID, 0); err != nil {
		return post.Visibility{}, err
	}
	return p.Visibility(author.Fold(events.AuthorRef{}, history)), nil
}

// currentNovel reads the identifiers and the state of an existing novel, and the reason of its rejection; nil if it is
// not rejected, or was barred.
func (a *API) currentNovel(ctx context.Context, id uuid.UUID) (n novel.Novel, reason *string, err error) {
	n.ID = id
	var eventType *string
	var data []byte
	err = a.DB.QueryRow(ctx, novelSQL, id).Scan(&n.Slug, &n.State, &eventType, &data)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return n, nil, fmt.Errorf("novel %s of a delivery is not in title_lookup", id)
	case err != nil:
		return n, nil, fmt.Errorf("read novel %s: %w", id, err)
	case eventType == nil:
		return n, nil, nil
	}
	rejected, err := events.DecodeAs[events.NovelRejected](events.Stored{Type: *eventType, Data: data})
	return n, &rejected.Reason, err
}

// queryReplicated reads the rows of a query, and waits until they are on the synchronous standby, because partners rely
// on recorded deliveries after a failover. Query and wait run on the same server.
func queryReplicated[T any](
	ctx context.Context, db database.DB, sql string, args []any, scan pgx.RowToFunc[T],
) (found []T, err error) {
	var batch pgx.Batch
	batch.Queue(sql, args...).Query(func(rows pgx.Rows) error {
		found, err = pgx.CollectRows(rows, scan)
		return err
	})
	eventlog.QueueReplicated(&batch)
	err = db.SendBatch(ctx, &batch).Close()
	return found, err
}

// Limits of one reconciliation.
const (
	maxReconcileBody = 512 << 10 // bytes
	maxReconcileKeys = 1_000
)

// reconcileResponse lists the deliveries to send again.
type reconcileResponse struct {
	Missing []string `json:"missing"` // as sent, in the order sent, each once
	Present int      `json:"present"` // number of distinct keys that are on record
}

var (
	//go:embed reconcile_novels.sql
	reconcileNovelsSQL string
	//go:embed reconcile_posts.sql
	reconcilePostsSQL string
)

// reconcile handles POST /api/integrations/deliveries/reconcile.
func (a *API) reconcile(ctx context.Context, c *call) (*answer, error) {
	body, err := decodeReconcile(c.Body)
	if err != nil {
		return nil, err
	}
	sql, args := reconcileNovelsSQL, []any{body.keys, c.Caller.IntegrationID}
	if body.operation == ratelimit.Posts {
		postIDs := make([]uuid.UUID, len(body.keys))
		for i, key := range body.keys {
			postIDs[i] = events.PostID(c.Caller.IntegrationID, key)
		}
		sql, args = reconcilePostsSQL, []any{body.keys, postIDs}
	}
	found, err := queryReplicated(ctx, a.DB, sql, args, pgx.RowTo[string])
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
	return &answer{Body: response}, nil
}

// reconciliation is a validated body: distinct keys, each with the spelling in which it was first sent.
type reconciliation struct {
	operation  ratelimit.Operation
	keys, sent []string
}

var reconcileNames = []string{"operation", "idempotencyKeys"}

// decodeReconcile decodes and validates a body as strictly as the body of a command. The error is a *problem.Error.
func decodeReconcile(body []byte) (reconciliation, error) {
	var o web.Object
	var r reconciliation
	if err := o.Parse(body, reconcileNames); err != nil {
		return r, err
	}
	if name, ok := o.Text("operation", true); ok {
		if r.operation, ok = parseOperation(name); !ok {
			o.Fail("operation", operationWanted)
		}
	}
	seen := map[string]bool{}
	o.Texts("idempotencyKeys", true, 1, maxReconcileKeys, func(field, sent string) {
		key, wrong := web.ParseKey(sent)
		switch {
		case wrong != "":
			o.Fail(field, "%s", wrong)
		case !seen[key]:
			seen[key] = true
			r.keys, r.sent = append(r.keys, key), append(r.sent, sent)
		}
	})
	return r, o.Err()
}
