package history_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events"
	"novelgate/internal/database"
	"novelgate/internal/testdb"
	"novelgate/readapi/history"
)

func open(t testing.TB) *pgxpool.Pool {
	t.Helper()
	pool, err := database.OpenHistory(context.Background(), testdb.New(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// row is an event as a test stores it.
type row struct {
	streamType string
	stream     uuid.UUID
	version    int
	id, source string
	kind       string
	data       string
	personal   *string
	metadata   events.Metadata
	recordedAt time.Time
}

var integrationID = uuid.MustParse("6d3ff1ad-4b62-4b0e-9c7e-2f6a9c1d2e01")

// post is the first event of a comment that integrationID has sent with an id as its key.
func post(id string) row {
	return row{
		streamType: "post", stream: events.PostID(integrationID, id), version: 1,
		id: id, source: events.PostsSource(integrationID), kind: "post.imported.v1",
		data: `{"content":"none"}`, metadata: events.Metadata{Actor: "integration:x", Batch: uuid.UUID{1}},
		recordedAt: time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC),
	}
}

const insertSQL = `INSERT INTO events (position, stream_type, stream_id, stream_version, event_id, integration_id, event_source, event_type, data, personal,
    actor, batch_id, request_id, correlation, recorded_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9::text::json, $10::text::json, $11, $12, nullif($13, ''), nullif($14, ''), $15)`

// insert adds events in a transaction.
func insert(ctx context.Context, tx pgx.Tx, rows []row) error {
	var batch pgx.Batch
	for i, r := range rows {
		integration, path := events.SplitSource(r.source)
		batch.Queue(insertSQL, i, r.streamType, r.stream, r.version, r.id, integration, path, r.kind, r.data, r.personal,
			r.metadata.Actor, r.metadata.Batch, r.metadata.RequestID, r.metadata.Correlation, r.recordedAt)
	}
	return tx.SendBatch(ctx, &batch).Close()
}

// store appends events in a transaction of their own.
func store(t testing.TB, pool *pgxpool.Pool, rows ...row) {
	t.Helper()
	if err := pgx.BeginFunc(t.Context(), pool,
		func(tx pgx.Tx) error { return insert(t.Context(), tx, rows) }); err != nil {
		t.Fatal(err)
	}
}

const sealSQL = `INSERT INTO ledger_seals (transaction_id, first_log_index, event_count)
SELECT transaction_id, (SELECT coalesce(max(first_log_index + event_count), 0) FROM ledger_seals)
       + coalesce(sum(count(*)) OVER (ORDER BY transaction_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0),
           count(*)
FROM events WHERE transaction_id > coalesce((SELECT max(transaction_id) FROM ledger_seals), '0') GROUP BY transaction_id`

// seal gives all events a log index, as the ledger does.
func seal(t testing.TB, pool *pgxpool.Pool) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), sealSQL); err != nil {
		t.Fatal(err)
	}
}

// settle waits until everything that is stored has settled: tests of other databases on the same server hold it back.
func settle(t testing.TB, pool *pgxpool.Pool) {
	t.Helper()
	if err := testdb.AwaitSettled(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
}

// all reads everything that a filter lets through, in pages.
func all(ctx context.Context, pool *pgxpool.Pool, filter history.Filter, limit, scanRows int) ([]history.Event, error) {
	reader, err := history.NewReader(ctx, pool, filter)
	if err != nil {
		return nil, err
	}
	reader.SetScanRows(scanRows)
	horizon, err := reader.Horizon(ctx)
	if err != nil {
		return nil, err
	}
	var found []history.Event
	for cursor := (history.Cursor{}); ; {
		// A cursor travels as text.
		parsed, err := history.ParseCursor(cursor.String())
		if err != nil {
			return nil, err
		}
		page, err := reader.Page(ctx, parsed, horizon, limit)
		if err != nil {
			return nil, err
		}
		found = append(found, page.Events...)
		if !page.More {
			return found, nil
		}
		cursor = page.Next
	}
}

// places are the positions of events.
func places(list []history.Event) []string {
	found := make([]string, len(list))
	for i := range list {
		found[i] = list[i].Position.String()
	}
	return found
}
