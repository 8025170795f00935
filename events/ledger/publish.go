package ledger

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events/eventlog"
)

// ErrOtherHistory is returned for a target with content of another ledger. That content is evidence: nothing is
// replaced or added.
var ErrOtherHistory = errors.New("the target has other checkpoints")

// Target is a destination for checkpoints outside of the database.
type Target interface {
	// Last returns the size of the last checkpoint of an origin that the target has; -1 for none. It may fail with
	// ErrOtherHistory.
	Last(ctx context.Context, origin string) (int64, error)
	// Take stores a checkpoint. It may be called again with the same one. It may fail with ErrOtherHistory.
	Take(ctx context.Context, c Checkpoint) error
	// String names the target in logs.
	String() string
}

// DefaultMaxInterval is the default maximum interval between attempts to publish.
const DefaultMaxInterval = time.Minute

// PublisherConfig configures a Publisher.
type PublisherConfig struct {
	// Pool must have one connection for the publisher. Required.
	Pool *pgxpool.Pool
	// Origin is the origin of the checkpoints to publish. Required.
	Origin string
	// Target gets the checkpoints. Required.
	Target Target
	// Interval is the interval between checks for new checkpoints. Default: 1 s.
	Interval time.Duration
	// MaxInterval is the maximum interval after failures. Default: DefaultMaxInterval, a minute.
	MaxInterval time.Duration
	// Metrics report a target that has other checkpoints. Default: new, unregistered ones.
	Metrics *Metrics
	// Logger gets errors. Default: slog.Default.
	Logger *slog.Logger
}

// Publisher sends a target the checkpoints that it lacks, in order and at least once, including those that were signed
// while the publisher did not run.
type Publisher struct {
	config PublisherConfig
	store  *Store
}

// NewPublisher returns a publisher; start it with Run.
func NewPublisher(config PublisherConfig) *Publisher {
	config.Interval = cmp.Or(config.Interval, defaultInterval)
	config.MaxInterval = cmp.Or(config.MaxInterval, DefaultMaxInterval)
	config.Metrics = cmp.Or(config.Metrics, NewMetrics())
	config.Logger = cmp.Or(config.Logger, slog.Default())
	config.Metrics.setPublishingRefused(config.Target.String(), false)
	return &Publisher{config: config, store: NewStore(config.Pool)}
}

// Run publishes until ctx ends. It logs errors and retries, with growing intervals up to MaxInterval.
func (p *Publisher) Run(ctx context.Context) {
	for failures := 0; ctx.Err() == nil; {
		err := p.Publish(ctx)
		wait := p.config.Interval
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			failures = 0
		default:
			wait = min(p.config.Interval<<min(failures, 10), p.config.MaxInterval)
			failures++
			p.report(ctx, wait, err)
		}
		// After another error, it is not known what the target has.
		if refused := errors.Is(err, ErrOtherHistory); refused || err == nil {
			p.config.Metrics.setPublishingRefused(p.config.Target.String(), refused)
		}
		eventlog.Sleep(ctx, wait)
	}
}

// report logs a failure: as an error if an operator must act, otherwise as a warning.
func (p *Publisher) report(ctx context.Context, wait time.Duration, err error) {
	logger := p.config.Logger.With(slog.String("target", p.config.Target.String()), slog.Duration("wait", wait),
		slog.Any("error", err))
	if errors.Is(err, ErrOtherHistory) {
		logger.ErrorContext(ctx, "Checkpoints are not published any more: keep the content of the target, it is evidence")
		return
	}
	logger.WarnContext(ctx, "Publishing a checkpoint failed; trying again")
}

// Publish sends the checkpoints that the target lacks.
func (p *Publisher) Publish(ctx context.Context) error {
	last, err := p.config.Target.Last(ctx, p.config.Origin)
	if err != nil {
		return fmt.Errorf("find what was published: %w", err)
	}
	const page = 100
	for {
		list, err := p.store.since(ctx, p.config.Origin, last, page)
		if err != nil {
			return err
		}
		for _, c := range list {
			if err := p.config.Target.Take(ctx, c); err != nil {
				return fmt.Errorf("publish checkpoint of %d entries: %w", c.Tree.N, err)
			}
			last = c.Tree.N
		}
		if len(list) < page {
			return nil
		}
	}
}

// publishTimeout limits one request.
const publishTimeout = 10 * time.Second

// Endpoint is a Target: each checkpoint is the body of a request. The database records the size of the last one
// that the endpoint has accepted.
type Endpoint struct {
	pool   *pgxpool.Pool
	client *http.Client
	method string
	url    *url.URL
}

// NewEndpoint returns a target that sends with POST or PUT.
func NewEndpoint(pool *pgxpool.Pool, method string, address *url.URL) *Endpoint {
	return &Endpoint{pool: pool, client: newClient(publishTimeout), method: method, url: address}
}

// newClient returns a client for requests whose body is a checkpoint.
func newClient(timeout time.Duration) *http.Client {
	return &http.Client{
		Timeout: timeout,
		// A redirect may turn the request into a GET without the checkpoint, whose 200 would count as success.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// maxAnswer is the number of bytes that are read of an answer.
const maxAnswer = 64 << 10

// String implements Target.
func (e *Endpoint) String() string { return e.url.Redacted() }

const publishedSQL = `SELECT tree_size FROM ledger_publications WHERE target = $1 AND origin = $2`

// savePublishedSQL never lowers the size of an origin, because another replica may have published more.
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

var errEndpoint = errors.New("the endpoint did not accept the checkpoint")

// Take implements Target. Any status from 200 to 299 means success. Redirects are not followed.
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
	_, _ = io.CopyN(io.Discard, response.Body, maxAnswer) // so that the connection can be used again
	if err := response.Body.Close(); err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	if response.StatusCode < http.StatusOK || response.StatusCode >= http.StatusMultipleChoices {
		if location, err := response.Location(); err == nil {
			return fmt.Errorf("%w: %s, a redirect to %s: if checkpoints belong there, set --ledger-publish-url to that address",
				errEndpoint, response.Status, location.Redacted())
		}
		return fmt.Errorf("%w: %s", errEndpoint, response.Status)
	}
	if _, err := e.pool.Exec(ctx, savePublishedSQL, e.String(), c.Origin, c.Tree.N); err != nil {
		return fmt.Errorf("record publication: %w", err)
	}
	return nil
}
