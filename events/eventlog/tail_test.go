package eventlog_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

func openTail(t *testing.T, pool *pgxpool.Pool, limit int) *eventlog.Tail {
	t.Helper()
	tail := eventlog.NewTail(pool.Config().ConnConfig, limit)
	t.Cleanup(func() { tail.Close(context.Background()) })
	return tail
}

// read reads from a tail.
func read(t *testing.T, tail *eventlog.Tail, from eventlog.Mark, streams ...string) eventlog.Chunk {
	t.Helper()
	return testdb.Must(tail.Read(t.Context(), from, streams))(t)
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
	if err := appendOn(context.Background(), pool, recorded...); err != nil {
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

// TestTailIsShared: the second follower gets the events that the first one decoded.
func TestTailIsShared(t *testing.T) {
	t.Parallel()
	log := setupLog(t)
	want := append(appendThreads(t, log.pool, "first", 3), appendThreads(t, log.pool, "second", 3)...)
	tail := openTail(t, log.pool, 4)
	first := read(t, tail, eventlog.Mark{})
	second := read(t, tail, first.End)
	if !first.Full || len(first.Events) != 4 || second.Full {
		t.Errorf("%d events, full: %v; then %d, full: %v", len(first.Events), first.Full, len(second.Events), second.Full)
	}
	if diff := cmp.Diff(want, append(ids(first), ids(second)...)); diff != "" {
		t.Errorf("events differ (-appended +read):\n%s", diff)
	}
	// What is cached is not read again: the log has other data now.
	testdb.Exec(t, log.pool, `ALTER TABLE events DISABLE TRIGGER USER; UPDATE events SET event_id = 'changed ' || event_id`)
	for start, left := range map[eventlog.Mark][]string{
		eventlog.MarkAfter(&first.Events[1]): want[2:], eventlog.MarkAfter(&first.Events[2]): want[3:], first.End: want[4:],
		{Position: 5}: want[5:],
	} {
		again := read(t, tail, start)
		diff := cmp.Diff(left, ids(again))
		if diff != "" || again.Full || again.Start != start.Position || again.End != second.End || again.Read != len(left) {
			t.Errorf("from %s on: %+v (-kept +read)\n%s", start, again.Span, diff)
		}
		twice := read(t, tail, start)
		if &again.Events[0] != &twice.Events[0] {
			t.Error("events are decoded twice")
		}
		span, rows, err := tail.ReadRows(t.Context(), start)
		if err != nil || span.Read != len(left) || span.Start != start.Position || span.End != second.End {
			t.Errorf("rows from %s on: %+v, %v", start, span, err)
		}
		for i := range rows {
			if rows[i].ID != left[i] || len(rows[i].Data) == 0 || rows[i].Metadata.RequestID != left[i] {
				t.Errorf("row %d from %s on: %+v", i, start, rows[i])
			}
		}
	}
	later := appendThreads(t, log.pool, "later", 2)
	if got := ids(read(t, tail, eventlog.Mark{Position: 5})); !slices.Equal(got, append(want[5:], later...)) {
		t.Errorf("with what was appended since: %v", got)
	}
	tail.Forget()
	if again := read(t, tail, second.End); again.Events[0].ID != later[0] {
		t.Errorf("after it has forgotten: %v", ids(again))
	}
	if again := read(t, tail, eventlog.Mark{}); again.Events[0].ID != "changed "+want[0] {
		t.Error("it has forgotten nothing")
	}
}

// TestTailOfAnotherLog: events of a log that was set back are not mixed with those that it got since.
func TestTailOfAnotherLog(t *testing.T) {
	t.Parallel()
	for name, longer := range map[string]bool{"shorter": false, "longer": true} {
		log := setupLog(t)
		kept := appendThreads(t, log.pool, "kept", 2)
		appendThreads(t, log.pool, "lost", 3)
		tail := openTail(t, log.pool, 0)
		end := read(t, tail, eventlog.Mark{}).End
		testdb.Lose(t, log.pool, `event_id LIKE 'lost%'`)
		if longer {
			kept = append(kept, appendThreads(t, log.pool, "new", 5)...)
		}
		for range 2 {
			if chunk, err := tail.Read(t.Context(), end, nil); !errors.Is(err, eventlog.ErrOtherLog) {
				t.Errorf("%s: %d events, %v, want ErrOtherLog", name, len(chunk.Events), err)
			}
		}
		if diff := cmp.Diff(kept, ids(read(t, tail, eventlog.Mark{}))); diff != "" {
			t.Errorf("%s: other events than the log has (-log +read):\n%s", name, diff)
		}
	}
}

// TestTailStopsBeforeUndecodable: a chunk ends before an event that cannot be decoded, unless its stream type was not
// requested.
func TestTailStopsBeforeUndecodable(t *testing.T) {
	t.Parallel()
	log := setupLog(t)
	before := appendThreads(t, log.pool, "before", 3)
	log.insertRaw(t, events.NovelStream, uuid.New(), 1, "odd", "novel.folded.v1", `{}`)
	after := appendThreads(t, log.pool, "after", 3)
	tail := openTail(t, log.pool, 0)
	chunk := read(t, tail, eventlog.Mark{})
	diff := cmp.Diff(before, ids(chunk))
	if diff != "" || chunk.End != eventlog.MarkAfter(&chunk.Events[2]) || chunk.Full {
		t.Errorf("up to %s, full: %v (-want +read):\n%s", chunk.End, chunk.Full, diff)
	}
	next := read(t, tail, chunk.End)
	for _, c := range []eventlog.Chunk{chunk, next} {
		if len(c.Undecodable) != 1 || !errors.Is(c.Undecodable[0], events.ErrUnknownType) ||
			c.Undecodable[0].Recorded.ID != "odd" {
			t.Errorf("undecodable: %v", c.Undecodable)
		}
	}
	if next.Start != next.End.Position || len(next.Events) > 0 {
		t.Errorf("right in front of it: %v from %d to %s", ids(next), next.Start, next.End)
	}
	others := read(t, tail, eventlog.Mark{}, events.ThreadStream)
	if diff := cmp.Diff(append(before, after...), ids(others)); diff != "" || len(others.Undecodable) > 0 {
		t.Errorf("threads only: %v (-want +read):\n%s", others.Undecodable, diff)
	}
}

// TestReadUsesTheIndex: a read scans the primary key from its position, also with a plan from when the log was empty.
func TestReadUsesTheIndex(t *testing.T) {
	t.Parallel()
	conn := testdb.Must(eventlog.Connect(t.Context(), setupLog(t).pool.Config().ConnConfig))(t)
	defer conn.Close(context.Background()) //nolint:errcheck // a test's connection
	rows := testdb.Must(conn.Query(t.Context(), "EXPLAIN "+eventlog.RowsSQL, 5, 1000))(t)
	lines := testdb.Must(pgx.CollectRows(rows, pgx.RowTo[string]))(t)
	if plan := strings.Join(lines, "\n"); !strings.Contains(plan, "Index Scan using events_pkey") ||
		strings.Contains(plan, "Sort") {
		t.Errorf("plan:\n%s", plan)
	}
}
