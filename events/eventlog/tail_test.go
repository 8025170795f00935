package eventlog_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/testdb"
)

// openTail returns a tail of a log and the identity of the log.
func openTail(t *testing.T, pool *pgxpool.Pool, limit int) (*eventlog.Tail, eventlog.Identity) {
	t.Helper()
	identity := testdb.Must(eventlog.Identify(t.Context(), pool))(t)
	tail := eventlog.NewTail(pool.Config().ConnConfig, limit)
	t.Cleanup(func() { tail.Close(context.Background()) })
	return tail, identity
}

// read reads from a tail.
func read(
	t *testing.T, tail *eventlog.Tail, after events.Position, of eventlog.Identity, streams ...string,
) eventlog.Chunk {
	t.Helper()
	return testdb.Must(tail.Read(t.Context(), after, of, streams))(t)
}

// appendThreads appends events in one transaction, and returns their ids.
func appendThreads(t *testing.T, pool *pgxpool.Pool, prefix string, n int) []string {
	t.Helper()
	recorded, ids := make([]events.Recorded, n), make([]string, n)
	for i := range recorded {
		ids[i] = fmt.Sprintf("%s-%d", prefix, i)
		recorded[i] = events.Recorded{
			StreamType: events.ThreadStream, StreamID: uuid.New(), StreamVersion: 1, ID: ids[i], Source: "test",
			Event: events.ThreadOpened{NovelID: uuid.New()}, Metadata: events.Metadata{RequestID: ids[i]},
		}
	}
	var batch pgx.Batch
	if err := eventlog.Queue(&batch, recorded); err != nil {
		t.Error(err)
	}
	if err := pool.SendBatch(context.Background(), &batch).Close(); err != nil {
		t.Error(err)
	}
	return ids
}

func ids(chunk eventlog.Chunk) []string {
	var list []string
	for i := range chunk.Events {
		list = append(list, chunk.Events[i].ID)
	}
	return list
}

func awaitSettled(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	if err := testdb.AwaitSettled(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
}

// TestTailIsShared: the second follower gets the events that the first one decoded. The chunk does not count as
// settled, because a signal of later events may have been consumed.
func TestTailIsShared(t *testing.T) {
	t.Parallel()
	log := setupLog(t)
	want := append(appendThreads(t, log.pool, "first", 3), appendThreads(t, log.pool, "second", 3)...)
	awaitSettled(t, log.pool)
	tail, identity := openTail(t, log.pool, 4)
	first := read(t, tail, events.Position{}, identity)
	second := read(t, tail, first.End, identity)
	if !first.Full || len(first.Events) != 4 || second.Full {
		t.Errorf("%d events, full: %v; then %d, full: %v", len(first.Events), first.Full, len(second.Events), second.Full)
	}
	if diff := cmp.Diff(want, append(ids(first), ids(second)...)); diff != "" {
		t.Errorf("events differ (-appended +read):\n%s", diff)
	}
	// The cache is not read again: the log no longer has these events.
	testdb.Exec(t, log.pool, `ALTER TABLE events DISABLE TRIGGER USER; DELETE FROM events`)
	for start, left := range map[events.Position][]string{
		first.Events[1].Position: want[2:], first.Events[2].Position: want[3:], first.End: want[4:],
	} {
		tail.Settle()
		again := read(t, tail, start, identity)
		diff := cmp.Diff(left, ids(again))
		if diff != "" || again.Settled || again.Full || again.Start != start || again.End != second.End {
			t.Errorf("behind %s: %+v (-kept +read)\n%s", start, again.Span, diff)
		}
		twice := read(t, tail, start, identity)
		if &again.Events[0] != &twice.Events[0] {
			t.Error("events are decoded twice")
		}
		tail.Settle()
		span, rows, err := tail.ReadRows(t.Context(), start, identity)
		if err != nil || span.Read != len(left) || span.Start != start || span.End != second.End || span.Settled {
			t.Errorf("rows behind %s: %+v, %v", start, span, err)
		}
		for i := range rows {
			if rows[i].ID != left[i] || len(rows[i].Data) == 0 || rows[i].Metadata.RequestID != left[i] {
				t.Errorf("row %d behind %s: %+v", i, start, rows[i])
			}
		}
	}
	tail.Forget()
	if again := read(t, tail, events.Position{}, identity); len(again.Events) != 0 {
		t.Error("it has forgotten nothing")
	}
}

// TestTailOfAnotherLog: the cache of one log is not returned for another, and a follower gets an error even without
// later events.
func TestTailOfAnotherLog(t *testing.T) {
	t.Parallel()
	log := setupLog(t)
	kept := appendThreads(t, log.pool, "kept", 2)
	appendThreads(t, log.pool, "lost", 3)
	awaitSettled(t, log.pool)
	tail, before := openTail(t, log.pool, 0)
	end := read(t, tail, events.Position{}, before).End
	testdb.Lose(t, log.pool, `event_id LIKE 'lost%'`)

	for range 2 {
		if chunk, err := tail.Read(t.Context(), end, before, nil); !errors.Is(err, eventlog.ErrOtherLog) {
			t.Errorf("%d events, %v, want ErrOtherLog", len(chunk.Events), err)
		}
	}
	for _, after := range []events.Position{{}, end} {
		_, err := eventlog.ReadRows(t.Context(), log.pool, after, before, eventlog.NewFetchSize(9),
			func(row *eventlog.Row) error {
				t.Errorf("event %s of another log", row.ID)
				return nil
			})
		if !errors.Is(err, eventlog.ErrOtherLog) {
			t.Errorf("rows: %v, want ErrOtherLog", err)
		}
	}
	now := testdb.Must(eventlog.Identify(t.Context(), log.pool))(t)
	if diff := cmp.Diff(kept, ids(read(t, tail, events.Position{}, now))); diff != "" {
		t.Errorf("other events than the log has (-log +read):\n%s", diff)
	}
}

// TestTailStopsBeforeUndecodable: a chunk ends before an event that cannot be decoded, unless its stream type was not
// requested.
func TestTailStopsBeforeUndecodable(t *testing.T) {
	t.Parallel()
	log := setupLog(t)
	before := appendThreads(t, log.pool, "before", 3)
	_, err := log.pool.Exec(t.Context(), `INSERT INTO events (position, stream_type, stream_id, stream_version, event_id, event_source, event_type, data, actor, batch_id)
		VALUES (0, 'novel', gen_random_uuid(), 1, 'odd', 'test', 'novel.folded.v1', '{}', 'test', gen_random_uuid())`)
	if err != nil {
		t.Fatal(err)
	}
	after := appendThreads(t, log.pool, "after", 3)
	awaitSettled(t, log.pool)
	tail, identity := openTail(t, log.pool, 0)
	chunk := read(t, tail, events.Position{}, identity)
	if diff := cmp.Diff(before, ids(chunk)); diff != "" || chunk.End != chunk.Events[2].Position || chunk.Full {
		t.Errorf("up to %s, full: %v (-want +read):\n%s", chunk.End, chunk.Full, diff)
	}
	next := read(t, tail, chunk.End, identity)
	for _, c := range []eventlog.Chunk{chunk, next} {
		if len(c.Undecodable) != 1 || !errors.Is(c.Undecodable[0], events.ErrUnknownType) ||
			c.Undecodable[0].Recorded.ID != "odd" {
			t.Errorf("undecodable: %v", c.Undecodable)
		}
	}
	if next.Start != next.End || len(next.Events) > 0 {
		t.Errorf("right in front of it: %v from %s to %s", ids(next), next.Start, next.End)
	}
	others := read(t, tail, events.Position{}, identity, events.ThreadStream)
	if diff := cmp.Diff(append(before, after...), ids(others)); diff != "" || len(others.Undecodable) > 0 {
		t.Errorf("threads only: %v (-want +read):\n%s", others.Undecodable, diff)
	}
}

// TestReadUsesTheIndex: a read scans the primary key from its position, also with a plan from when the log was empty.
func TestReadUsesTheIndex(t *testing.T) {
	t.Parallel()
	conn := testdb.Must(eventlog.Connect(t.Context(), setupLog(t).pool.Config().ConnConfig))(t)
	defer conn.Close(context.Background()) //nolint:errcheck // a test's connection
	rows := testdb.Must(conn.Query(t.Context(), "EXPLAIN "+eventlog.RowsSQL, "5", 5, 1000))(t)
	lines := testdb.Must(pgx.CollectRows(rows, pgx.RowTo[string]))(t)
	if plan := strings.Join(lines, "\n"); !strings.Contains(plan, "Index Scan using events_pkey") ||
		strings.Contains(plan, "Sort") {
		t.Errorf("plan:\n%s", plan)
	}
}

// TestReadStaysBelowRunningTransactions: events of a transaction are not visible while an older one is running.
func TestReadStaysBelowRunningTransactions(t *testing.T) {
	t.Parallel()
	pool := setupLog(t).pool
	tail, identity := openTail(t, pool, 0)
	older := testdb.Begin(t, pool)
	testdb.Exec(t, older, `SELECT pg_current_xact_id()`)
	appendThreads(t, pool, "younger", 3)
	if chunk := read(t, tail, events.Position{}, identity); chunk.Read != 0 || chunk.Settled {
		t.Errorf("%d events are seen while an older transaction is running, settled: %v", chunk.Read, chunk.Settled)
	}
	if err := older.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	testdb.Eventually(t, "all are seen", func() bool { return read(t, tail, events.Position{}, identity).Read == 3 })
}
