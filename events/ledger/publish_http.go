package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// publishTimeout bounds one request.
const publishTimeout = 10 * time.Second

// Endpoint is a Target: each checkpoint is the body of a request. What the endpoint has taken is on record in the
// database.
type Endpoint struct {
	pool   *pgxpool.Pool
	client *http.Client
	method string
	url    *url.URL
}

// NewEndpoint returns a target that sends with POST or PUT.
func NewEndpoint(pool *pgxpool.Pool, method string, address *url.URL) *Endpoint {
	client := &http.Client{
		Timeout: publishTimeout,
		// A redirect may turn the request into a GET without the checkpoint, and its 200 would count.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return &Endpoint{pool: pool, client: client, method: method, url: address}
}

// String implements Target.
func (e *Endpoint) String() string { return e.url.Redacted() }

const publishedSQL = `SELECT tree_size FROM ledger_publications WHERE target = $1 AND origin = $2`

// savePublishedSQL never goes back within an origin: another replica may have been faster.
const savePublishedSQL = `INSERT INTO ledger_publications AS p (target, origin, tree_size, published_at)
VALUES ($1, $2, $3, statement_timestamp())
ON CONFLICT (target) DO UPDATE SET origin = EXCLUDED.origin, tree_size = EXCLUDED.tree_size,
    published_at = EXCLUDED.published_at
WHERE p.origin <> EXCLUDED.origin OR p.tree_size < EXCLUDED.tree_size`

// Last implements Target.
func (e *Endpoint) Last(ctx context.Context, origin string) (int64, error) {
	var size int64
	err := e.pool.QueryRow(ctx, publishedSQL, e.String(), origin).Scan(&size)
	if errors.Is(err, pgx.ErrNoRows) {
		return -1, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read what was published: %w", err)
	}
	return size, nil
}

var errEndpoint = errors.New("the endpoint did not take it")

// Take implements Target. Any status from 200 to 299 means that the endpoint has it. Redirects are not followed.
func (e *Endpoint) Take(ctx context.Context, c Checkpoint) error {
	request, err := http.NewRequestWithContext(ctx, e.method, e.url.String(), bytes.NewReader(c.Note))
	if err != nil {
		return fmt.Errorf("make request: %w", err)
	}
	request.Header.Set("Content-Type", "text/plain; charset=utf-8")
	response, err := e.client.Do(request)
	if err != nil {
		return fmt.Errorf("send: %w", err)
	}
	const most = 64 << 10 // of an answer that is read so that the connection can be used again
	_, _ = io.CopyN(io.Discard, response.Body, most)
	if err := response.Body.Close(); err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	if response.StatusCode < http.StatusOK || response.StatusCode >= http.StatusMultipleChoices {
		if location, err := response.Location(); err == nil {
			return fmt.Errorf("%w: %s, it points to %s: if checkpoints belong there, set --ledger-publish-url to that",
				errEndpoint, response.Status, location.Redacted())
		}
		return fmt.Errorf("%w: %s", errEndpoint, response.Status)
	}
	if _, err := e.pool.Exec(ctx, savePublishedSQL, e.String(), c.Origin, c.Tree.N); err != nil {
		return fmt.Errorf("record publication: %w", err)
	}
	return nil
}
