package eventlog_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/testdb"
)

// TestChunks: chunks of any size return all events once, in order, and each begins where the one before it ended.
func TestChunks(t *testing.T) {
	t.Parallel()
	log := setupLog(t)
	if end, err := eventlog.End(t.Context(), log.pool); err != nil || end != (eventlog.Mark{}) {
		t.Fatalf("an empty log ends at %s, %v", end, err)
	}
	const n = 60
	for version := 1; version <= n/3; version++ {
		log.append(t, approval(1, version), approval(2, version), approval(3, version))
	}
	want := testdb.Must(eventlog.ReadFrom(t.Context(), log.pool, 0, n+1))(t)
	end := testdb.Must(eventlog.End(t.Context(), log.pool))(t)
	if len(want) != n || end != eventlog.MarkAfter(&want[n-1]) {
		t.Fatalf("%d events, the log ends at %s", len(want), end)
	}
	for _, size := range []int{1, 7, n / 2, n, n + 1} {
		var got []events.Recorded
		fetch, at := eventlog.NewFetchSize(size), eventlog.Mark{}
		for full := true; full; {
			chunk := testdb.Must(eventlog.ReadChunk(t.Context(), log.pool, at, fetch, nil))(t)
			if chunk.Start != at.Position || chunk.Read != len(chunk.Events) || chunk.Read > size {
				t.Errorf("chunks of %d: %+v at %s", size, chunk.Span, at)
			}
			got, at, full = append(got, chunk.Events...), chunk.End, chunk.Full
		}
		if diff := cmp.Diff(want, got); diff != "" || at != end {
			t.Errorf("chunks of %d: up to %s (-want +got):\n%.500s", size, at, diff)
		}
	}
	chunk, err := eventlog.ReadChunk(t.Context(), log.pool, eventlog.Mark{}, eventlog.NewFetchSize(1000),
		[]string{events.PostStream})
	if err != nil || len(chunk.Events) != 0 || chunk.Read != n || chunk.End != end {
		t.Errorf("streams that are not there: %d events of %d, %v", len(chunk.Events), chunk.Read, err)
	}
}

// TestReadFromAMark: a read goes on only if the log has the event before the mark.
func TestReadFromAMark(t *testing.T) {
	t.Parallel()
	log := setupLog(t)
	for version := 1; version <= 4; version++ {
		log.append(t, approval(1, version))
	}
	all := testdb.Must(eventlog.ReadFrom(t.Context(), log.pool, 0, 10))(t)
	read := func(from eventlog.Mark) (got []string, err error) {
		_, err = eventlog.ReadRows(t.Context(), log.pool, from, eventlog.NewFetchSize(2), func(row *eventlog.Row) error {
			got = append(got, row.ID)
			return nil
		})
		return got, err
	}
	for name, c := range map[string]struct {
		from eventlog.Mark
		want []string
		err  error
	}{
		"the start":         {eventlog.Mark{}, []string{all[0].ID, all[1].ID}, nil},
		"after an event":    {eventlog.MarkAfter(&all[0]), []string{all[1].ID, all[2].ID}, nil},
		"a bare position":   {eventlog.Mark{Position: 3}, []string{all[3].ID}, nil},
		"the end":           {eventlog.MarkAfter(&all[3]), nil, nil},
		"another event":     {eventlog.Mark{Position: 1, Batch: uuid.UUID{1}}, nil, eventlog.ErrOtherLog},
		"beyond the end":    {eventlog.Mark{Position: 5, Batch: uuid.UUID{1}}, nil, eventlog.ErrOtherLog},
		"a mark further on": {eventlog.Mark{Position: 2, Batch: all[0].Metadata.Batch}, nil, eventlog.ErrOtherLog},
	} {
		got, err := read(c.from)
		if diff := cmp.Diff(c.want, got); diff != "" || !errors.Is(err, c.err) {
			t.Errorf("%s: %v, want %v (-want +got):\n%s", name, err, c.err, diff)
		}
	}
	sql := `SELECT ` + eventlog.HasMarkSQL("$1::bigint", "$2::uuid")
	for mark, want := range map[eventlog.Mark]bool{
		{}: true, eventlog.MarkAfter(&all[3]): true,
		{Position: 4, Batch: uuid.UUID{1}}: false, {Position: 9, Batch: uuid.UUID{1}}: false,
	} {
		if got := testdb.Value[bool](t, log.pool, sql, mark.Position, mark.Batch); got != want {
			t.Errorf("the log has %s: %t", mark, got)
		}
	}
}

// TestDamagedLogIsNotRead: a reader finds what somebody has changed behind the guards.
func TestDamagedLogIsNotRead(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]string{
		"a gap":            `DELETE FROM events WHERE log_index = 1`,
		"the first one":    `DELETE FROM events WHERE log_index = 0`,
		"a shifted event":  `UPDATE events SET log_index = 7 WHERE log_index = 2`,
		"an exchanged one": `UPDATE events SET log_index = 9 WHERE log_index = 0`,
	} {
		log := setupLog(t)
		log.append(t, approval(1, 1), approval(1, 2), approval(1, 3))
		testdb.Exec(t, log.pool, `ALTER TABLE events DISABLE TRIGGER USER; `+damage)
		if got, err := eventlog.ReadFrom(t.Context(), log.pool, 0, 10); !errors.Is(err, eventlog.ErrGap) {
			t.Errorf("%s: %d events, %v", name, len(got), err)
		}
	}
}
