package commands

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"slices"
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

// delivery is a recorded command with the current state of its novel.
type delivery struct {
	Operation      ratelimit.Operation `json:"operation"`
	IdempotencyKey string              `json:"idempotencyKey"`
	ReceivedAt     time.Time           `json:"receivedAt"`
	NovelID        uuid.UUID           `json:"novelId"`
	Slug           string              `json:"slug"`
	URL            string              `json:"url"`
	State          novel.State         `json:"state"`  // of the novel
	Reason         *string             `json:"reason"` // of staff for the rejection, or for hiding the comment; nil otherwise
}

// postDelivery is a recorded comment, or a change of one, with the current state of the comment.
type postDelivery struct {
	delivery
	PostID       uuid.UUID  `json:"postId"`
	ThreadID     uuid.UUID  `json:"threadId"`
	ParentPostID *uuid.UUID `json:"parentPostId"`
	PostState    post.State `json:"postState"`
}

// noDelivery explains why a successful command may have no recorded delivery.
const noDelivery = "No such delivery is on record. Canonical and foreign outcomes and failed requests leave no record."

var (
	//go:embed delivery.sql
	deliverySQL string
	//go:embed novel.sql
	novelSQL string
)

// showDelivery handles GET /api/integrations/deliveries/{idempotencyKey}. It looks up only sources of the calling
// integration, so an integration never sees deliveries of another one.
func (a *API) showDelivery(ctx context.Context, c *call) (*answer, error) {
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
		return nil, problem.New(problem.CodeInvalidIdempotencyKey, "The idempotency key in the path "+wrong+".")
	}

	shown := delivery{Operation: operation, IdempotencyKey: key}
	var streamID uuid.UUID
	var stored events.Stored
	found, err := queryReplicated(ctx, a.DB, deliverySQL, deliveryArgs(operation, c.Caller.IntegrationID, key),
		func(row pgx.CollectableRow) (struct{}, error) {
			return struct{}{}, row.Scan(&streamID, &stored.Type, &stored.Data, &shown.ReceivedAt)
		})
	switch {
	case err != nil:
		return nil, fmt.Errorf("find delivery: %w", err)
	case len(found) == 0:
		return nil, problem.ErrNotFound.WithDetail(noDelivery)
	}
	shown.ReceivedAt, shown.NovelID = shown.ReceivedAt.UTC(), streamID
	if operation == ratelimit.Novels {
		if err := a.addNovel(ctx, &shown); err != nil {
			return nil, err
		}
		shown.URL = a.Addresses.Novel(shown.Slug)
		return &answer{Body: shown}, nil
	}
	if operation != ratelimit.Posts { // a change: show the comment
		err := a.DB.QueryRow(ctx, deliverySQL, streamID, "", uuid.Nil, "").Scan(nil, &stored.Type, &stored.Data, nil)
		if err != nil {
			return nil, fmt.Errorf("find the comment of a change: %w", err)
		}
	}
	imported, err := events.DecodeAs[events.PostImported](stored)
	if err != nil {
		return nil, err
	}
	shown.NovelID = imported.NovelID
	if err := a.addNovel(ctx, &shown); err != nil {
		return nil, err
	}
	visibility, err := a.postVisibility(ctx, streamID)
	if err != nil {
		return nil, err
	}
	shown.URL, shown.Reason = a.Addresses.Post(shown.Slug, streamID), nil
	if visibility.State == post.Hidden {
		shown.Reason = &visibility.Reason
	}
	return &answer{Body: postDelivery{
		delivery: shown, PostID: streamID, ThreadID: imported.ThreadID, ParentPostID: imported.ParentPostID,
		PostState: visibility.State,
	}}, nil
}

// deliveryArgs returns the parameters of deliverySQL.
func deliveryArgs(operation ratelimit.Operation, integration uuid.UUID, key string) []any {
	postID := uuid.NullUUID{UUID: events.PostID(integration, key), Valid: operation == ratelimit.Posts}
	return []any{postID, key, integration, sourcePath(operation)}
}

// Found is a recorded delivery as staff find it.
type Found struct {
	Operation  ratelimit.Operation
	SubjectID  uuid.UUID // the novel or, of any other operation, the comment
	ReceivedAt time.Time
}

// FindDeliveries returns the deliveries of an integration with a key, by operation.
func FindDeliveries(
	ctx context.Context, db database.Querier, integration uuid.UUID, key string,
) (found []Found, err error) {
	for _, operation := range slices.Sorted(maps.Keys(sources)) {
		rows, err := database.Collect(ctx, db, "deliveries", func(row pgx.CollectableRow) (Found, error) {
			f := Found{Operation: operation}
			return f, row.Scan(&f.SubjectID, nil, nil, &f.ReceivedAt)
		}, deliverySQL, deliveryArgs(operation, integration, key)...)
		if err != nil {
			return nil, err
		}
		found = append(found, rows...)
	}
	return found, nil
}

// sources has the operations that have deliveries, with the sources of their events.
var sources = map[ratelimit.Operation]func(integrationID uuid.UUID) string{
	ratelimit.Novels: events.NovelsSource, ratelimit.Posts: events.PostsSource, Edits: events.PostEditsSource,
	Withdrawals: events.PostWithdrawalsSource, Reports: events.PostReportsSource,
}

// sourcePath returns the source of an operation without the integration, as the log has it.
func sourcePath(operation ratelimit.Operation) string {
	_, path := events.SplitSource(sources[operation](uuid.Nil))
	return path
}

func parseOperation(name string) (ratelimit.Operation, bool) {
	operation := ratelimit.Operation(name)
	return operation, sources[operation] != nil
}

// operationWanted is the error text for any other name.
const operationWanted = "must be novels, posts, edits, withdrawals or reports"

// authorIDSQL identifies an author. $1: integration; $2: the partner's identifier.
const authorIDSQL = `SELECT author_id(author_key((SELECT value FROM settings WHERE name = 'author_secret'), $1), $2)`

// postVisibility returns whether readers see a post, and why not. It reads the log, so it has no lag.
func (a *API) postVisibility(ctx context.Context, id uuid.UUID) (post.Visibility, error) {
	history, err := eventlog.ReadStream(ctx, a.DB, events.PostStream, id, 0)
	if err != nil {
		return post.Visibility{}, err
	}
	p := post.Fold(history)
	if p.Imported.Comment == nil {
		return p.Visibility(author.Author{}), nil
	}
	var authorID uuid.UUID // the post may be another partner's
	err = a.DB.QueryRow(ctx, authorIDSQL, p.Imported.IntegrationID, p.Imported.Comment.ExternalUUID).Scan(&authorID)
	if err != nil {
		return post.Visibility{}, fmt.Errorf("identify the author of post %s: %w", id, err)
	}
	if history, err = eventlog.ReadStream(ctx, a.DB, events.AuthorStream, authorID, 0); err != nil {
		return post.Visibility{}, err
	}
	return p.Visibility(author.Fold(events.AuthorRef{}, history)), nil
}

// addNovel adds the slug and the state of the novel, and the reason of its rejection; nil if it is not rejected, or was
// barred.
func (a *API) addNovel(ctx context.Context, d *delivery) error {
	var eventType *string
	var data []byte
	err := a.DB.QueryRow(ctx, novelSQL, d.NovelID).Scan(&d.Slug, &d.State, &eventType, &data)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return fmt.Errorf("novel %s of a delivery is not in title_lookup", d.NovelID)
	case err != nil:
		return fmt.Errorf("read novel %s: %w", d.NovelID, err)
	case eventType == nil:
		return nil
	}
	rejected, err := events.DecodeAs[events.NovelRejected](events.Stored{Type: *eventType, Data: data})
	d.Reason = &rejected.Reason
	return err
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
	//go:embed reconcile_keys.sql
	reconcileKeysSQL string
	//go:embed reconcile_posts.sql
	reconcilePostsSQL string
)

// reconcile handles POST /api/integrations/deliveries/reconcile. Its body is decoded as strictly as that of a command.
func (a *API) reconcile(ctx context.Context, c *call) (*answer, error) {
	var o web.Object
	if err := o.Parse(c.Body, []string{"operation", "idempotencyKeys"}); err != nil {
		return nil, err
	}
	var operation ratelimit.Operation
	if name, ok := o.Text("operation", true); ok {
		if operation, ok = parseOperation(name); !ok {
			o.Fail("operation", "%s, got %q", operationWanted, web.Clip(name))
		}
	}
	var keys, sent []string // distinct keys, each with the spelling in which it was first sent
	seen := map[string]bool{}
	o.Texts("idempotencyKeys", true, 1, maxReconcileKeys, func(field, text string) {
		key, wrong := web.ParseKey(text)
		switch {
		case wrong != "":
			o.Fail(field, "%s", wrong)
		case !seen[key]:
			seen[key] = true
			keys, sent = append(keys, key), append(sent, text)
		}
	})
	if err := o.Err(); err != nil {
		return nil, err
	}
	sql, args := reconcileKeysSQL, []any{keys, c.Caller.IntegrationID, sourcePath(operation)}
	if operation == ratelimit.Posts {
		postIDs := make([]uuid.UUID, len(keys))
		for i, key := range keys {
			postIDs[i] = events.PostID(c.Caller.IntegrationID, key)
		}
		sql, args = reconcilePostsSQL, []any{keys, postIDs}
	}
	found, err := queryReplicated(ctx, a.DB, sql, args, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("reconcile deliveries: %w", err)
	}
	response := reconcileResponse{Present: len(found)}
	for i, key := range keys {
		if !slices.Contains(found, key) {
			response.Missing = append(response.Missing, sent[i])
		}
	}
	return &answer{Body: response}, nil
}
