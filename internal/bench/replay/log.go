package replay

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"novelgate/events"
	"novelgate/internal/bench/load"
)

const (
	writers       = 2
	transaction   = 200 // events in one transaction, as a busy committer has them
	novels, users = 1000, 5000
	recent        = 20 // comments on its novel among which a reply finds what it answers
)

var logColumns = []string{
	"position", "stream_type", "stream_id", "stream_version", "event_id", "event_source", "event_type", "data", "personal",
	"salt", "metadata",
}

// The unique indexes of the log are made at the end: that is faster, and the log comes out the same.
var (
	withoutIndexes = []string{
		`ALTER TABLE events DROP CONSTRAINT events_pkey, DROP CONSTRAINT events_stream_key, DROP CONSTRAINT events_id_key`,
	}
	withIndexes = []string{
		`SET maintenance_work_mem = '256MB'`,
		`ALTER TABLE events ADD CONSTRAINT events_pkey PRIMARY KEY (transaction_id, position)`,
		`ALTER TABLE events ADD CONSTRAINT events_stream_key UNIQUE (stream_id, stream_version)`,
		`ALTER TABLE events ADD CONSTRAINT events_id_key UNIQUE (event_id, event_source)`,
		`VACUUM (FREEZE, ANALYZE) events`,
		`CHECKPOINT`,
	}
)

// Generate fills an empty log with comments of about 300 characters, by COPY.
func Generate(ctx context.Context, pool *pgxpool.Pool, now time.Time, n int) error {
	if err := execute(ctx, pool, withoutIndexes); err != nil {
		return err
	}
	group, working := errgroup.WithContext(ctx)
	for writer := range writers {
		group.Go(func() error {
			c := newComposer(writer, now)
			for left := (n + writer) / writers; left > 0; left -= transaction {
				rows := make([][]any, min(left, transaction))
				for i := range rows {
					var err error
					if rows[i], err = c.row(i); err != nil {
						return err
					}
				}
				if _, err := pool.CopyFrom(working, pgx.Identifier{"events"}, logColumns, pgx.CopyFromRows(rows)); err != nil {
					return fmt.Errorf("copy %d events: %w", len(rows), err)
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return execute(ctx, pool, withIndexes)
}

// composer makes the comments of one writer.
type composer struct {
	rng         *rand.Rand
	integration uuid.UUID
	now         time.Time
	writer, n   int
	latest      [novels][]uuid.UUID // of this writer's comments on each novel, up to recent
}

func newComposer(writer int, now time.Time) *composer {
	return &composer{
		rng: rand.New(rand.NewPCG(7, uint64(writer))), integration: uuid.NewSHA1(uuid.Nil, []byte("bench")), //nolint:gosec // not a secret
		now: now, writer: writer,
	}
}

// row returns the next comment as a row of the log.
func (c *composer) row(position int) ([]any, error) {
	c.n++
	key := load.Key(1, c.writer, c.n)
	about := c.rng.IntN(novels)
	novel := events.NovelID(load.Title(about))
	user := strconv.Itoa(c.rng.IntN(users))
	e := events.PostImported{
		IntegrationID: c.integration, NovelID: novel, NovelSlug: "the-lantern-of-ashford", ThreadID: events.ThreadID(novel),
		WrittenAt: c.now.Add(-time.Duration(c.rng.Int64N(int64(365 * 24 * time.Hour)))).UTC().Truncate(time.Second),
		Comment:   &events.Comment{ExternalUUID: "user-" + user, Username: "Reader " + user, Content: load.Content(c.rng)},
	}
	if chapter := c.rng.IntN(400); chapter < 300 {
		e.ChapterNumber = jsontext.Value(strconv.Itoa(chapter))
	}
	latest := c.latest[about]
	if len(latest) > 0 && c.rng.IntN(10) < 3 {
		parent := latest[c.rng.IntN(len(latest))]
		e.ParentPostID = &parent
	}
	id := events.PostID(c.integration, key)
	if len(latest) == recent {
		latest = latest[:copy(latest, latest[1:])]
	}
	c.latest[about] = append(latest, id)
	stored, err := events.Encode(e)
	if err != nil {
		return nil, fmt.Errorf("encode comment: %w", err)
	}
	metadata, err := events.EncodeMetadata(&events.Metadata{
		Actor: "integration:" + c.integration.String(), KeyID: c.integration.String(), RequestID: uuid.NewString(),
		Batch: uuid.New(), Fingerprint: uuid.NewString(),
	})
	if err != nil {
		return nil, fmt.Errorf("a generated event: %w", err)
	}
	return []any{
		int32(position), events.PostStream, id, int32(1), key, events.PostsSource(c.integration), stored.Type, //nolint:gosec // below transaction
		stored.Data, stored.Personal, uuid.New(), metadata,
	}, nil
}

func execute(ctx context.Context, pool *pgxpool.Pool, statements []string) error {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Release()
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}
