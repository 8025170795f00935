package contest

import (
	"context"
	"encoding/base64"
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
	"novelgate/events/eventlog"
	"novelgate/internal/bench/load"
)

const (
	preloadRun     = 1<<16 - 1 // number of a load that is never run
	preloadWriters = 3
	preloadBatch   = 1000
)

// past makes comments that were delivered before the benchmark.
type past struct {
	integrationID uuid.UUID
	now           time.Time
	threads       []discussion
	contents      []string
	rng           *rand.Rand
	writer        int
	ordinal       int
}

type discussion struct {
	novelID, threadID uuid.UUID
	slug              string
}

// oldComment is one of them.
type oldComment struct {
	key      string
	thread   discussion
	imported events.PostImported
}

func newPast(integrationID uuid.UUID, now time.Time, threads []discussion, writer int) *past {
	rng := rand.New(rand.NewPCG(preloadRun, uint64(writer))) //nolint:gosec // not a secret, never negative
	contents := make([]string, 500)
	for i := range contents {
		contents[i] = load.Content(rng)
	}
	return &past{integrationID: integrationID, now: now, threads: threads, contents: contents, rng: rng, writer: writer}
}

func (p *past) next() oldComment {
	p.ordinal++
	user := p.rng.IntN(5000)
	thread := p.threads[p.rng.IntN(len(p.threads))]
	comment := oldComment{
		key: load.Key(preloadRun, p.writer, p.ordinal), thread: thread,
		imported: events.PostImported{
			IntegrationID: p.integrationID, NovelID: thread.novelID, NovelSlug: thread.slug, ThreadID: thread.threadID,
			WrittenAt: p.now.Add(-time.Duration(p.rng.Int64N(int64(365 * 24 * time.Hour)))).UTC().Truncate(time.Microsecond),
			Comment: &events.Comment{
				ExternalUUID: "user-" + strconv.Itoa(user), Username: "Reader " + strconv.Itoa(user),
				Content: p.contents[p.rng.IntN(len(p.contents))],
			},
		},
	}
	if chapter := p.rng.IntN(400); chapter < 300 {
		comment.imported.ChapterNumber = jsontext.Value(strconv.Itoa(chapter))
	}
	return comment
}

// Preload appends so many comments to the log as if they had been delivered earlier, and waits until the projections
// of the running service have followed.
func (s *Service) Preload(ctx context.Context, running *Contestant, n int) error {
	const threadsSQL = `SELECT novel_id, thread_id, slug FROM threads JOIN title_lookup USING (novel_id)`
	err := s.arena.preload(ctx, s.databaseURL, threadsSQL, s.integrationID, n,
		func(ctx context.Context, conn *pgxpool.Pool, p *past, n int) error {
			recorded := make([]events.Recorded, n)
			batchID := uuid.New()
			for i := range recorded {
				recorded[i] = s.recorded(p.next(), batchID)
			}
			batch := &pgx.Batch{}
			if err := eventlog.Queue(batch, recorded); err != nil { //nolint:contextcheck // it only queues: nothing waits here
				return err
			}
			return conn.SendBatch(ctx, batch).Close() // preload says what failed
		})
	if err != nil {
		return err
	}
	_, err = running.settle(ctx, s.arena.config.Now)
	return err
}

func (s *Service) recorded(c oldComment, batchID uuid.UUID) events.Recorded {
	salt, requestID := uuid.New(), uuid.New().String()
	return events.Recorded{
		StreamType: events.PostStream, StreamID: events.PostID(s.integrationID, c.key), StreamVersion: 1,
		ID: c.key, Source: events.PostsSource(s.integrationID), Event: c.imported,
		Salt: uuid.NullUUID{UUID: salt, Valid: true},
		Metadata: events.Metadata{
			Actor: "integration:" + s.integrationID.String(), KeyID: s.integrationID.String(), RequestID: requestID,
			Correlation: requestID,
			Batch:       batchID, Fingerprint: base64.RawURLEncoding.EncodeToString(salt[:]),
		},
	}
}

// Preload inserts so many comments as if they had been delivered earlier.
func (p *Peer) Preload(ctx context.Context, n int) error {
	const threadsSQL = `SELECT novel_id, thread_id, slug FROM threads JOIN novels USING (novel_id)`
	columns := []string{
		"post_id", "integration_id", "idempotency_key", "thread_id", "author_uuid", "username", "chapter_number", "content",
		"written_at", "received_at",
	}
	return p.arena.preload(ctx, p.databaseURL, threadsSQL, p.integrationID, n,
		func(ctx context.Context, conn *pgxpool.Pool, old *past, n int) error {
			rows := make([][]any, n)
			for i := range rows {
				c := old.next()
				chapter, _ := strconv.ParseFloat(string(c.imported.ChapterNumber), 64) // 0 for none will do here
				rows[i] = []any{
					uuid.Must(uuid.NewV7()), p.integrationID, c.key, c.thread.threadID, c.imported.Comment.ExternalUUID,
					c.imported.Comment.Username, chapter, c.imported.Comment.Content, c.imported.WrittenAt, old.now,
				}
			}
			_, err := conn.CopyFrom(ctx, pgx.Identifier{"posts"}, columns, pgx.CopyFromRows(rows))
			return err // preload says what failed
		})
}

// preload lets a few writers insert n comments in batches, and ends with a checkpoint.
func (a *Arena) preload(ctx context.Context, databaseURL, threadsSQL string, integrationID uuid.UUID, n int,
	insert func(ctx context.Context, conn *pgxpool.Pool, p *past, n int) error,
) error {
	pool, err := pgxpool.New(ctx, databaseURL+"&synchronous_commit=off")
	if err != nil {
		return fmt.Errorf("open pool to preload: %w", err)
	}
	defer pool.Close()
	rows, err := pool.Query(ctx, threadsSQL)
	if err != nil {
		return fmt.Errorf("read discussions: %w", err)
	}
	threads, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (d discussion, err error) {
		err = row.Scan(&d.novelID, &d.threadID, &d.slug)
		return d, err
	})
	if err != nil {
		return fmt.Errorf("read discussions: %w", err)
	}
	group, ctx := errgroup.WithContext(ctx)
	for writer := range preloadWriters {
		group.Go(func() error {
			p := newPast(integrationID, a.config.Now(), threads, writer)
			for left := (n + writer) / preloadWriters; left > 0; left -= preloadBatch {
				if err := insert(ctx, pool, p, min(left, preloadBatch)); err != nil {
					return fmt.Errorf("preload: %w", err)
				}
			}
			return nil
		})
	}
	return group.Wait() // wrapped above
}

// Checkpoint writes all that is in memory to the disk, so that no round has to.
func (a *Arena) Checkpoint(ctx context.Context) error {
	if _, err := a.admin.Exec(ctx, `CHECKPOINT`); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	return nil
}
