package eventlog_test

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/testdb"
)

// TestChunksAndRanges: all ways of reading large parts of the log return the same events.
func TestChunksAndRanges(t *testing.T) {
	t.Parallel()
	log := setupLog(t)
	if end, err := eventlog.LastSettled(t.Context(), log.pool); err != nil || end != (events.Position{}) {
		t.Fatalf("an empty log ends at %s, %v", end, err)
	}
	const n = 60
	for version := 1; version <= n/3; version++ {
		log.append(t, approval(1, version), approval(2, version), approval(3, version))
	}
	want := log.settle(t, n)
	end, err := eventlog.LastSettled(t.Context(), log.pool)
	if err != nil || end != want[n-1].Position {
		t.Fatalf("the log ends at %s, %v", end, err)
	}
	check := func(name string, chunks []eventlog.Chunk) {
		t.Helper()
		var got []events.Recorded
		at, read := events.Position{}, 0
		for _, chunk := range chunks {
			if chunk.Start != at {
				t.Errorf("%s: a chunk starts at %s, want %s", name, chunk.Start, at)
			}
			at, read, got = chunk.End, read+chunk.Read, append(got, chunk.Events...)
		}
		if diff := cmp.Diff(want, got); diff != "" || at != end || read != n {
			t.Errorf("%s: %d events, up to %s (-want +got):\n%.500s", name, read, at, diff)
		}
	}
	for _, size := range []int{1, 7, n / 2, n, n + 1} {
		var chunks []eventlog.Chunk
		var r eventlog.Range
		for held := range slices.Chunk(want, size) {
			r.After, r.UpTo = r.UpTo, held[len(held)-1].Position
			chunk := testdb.Must(eventlog.ReadRange(t.Context(), log.pool, r, eventlog.NewFetchSize(size), nil))(t)
			if len(chunk.Events) != len(held) || chunk.End != r.UpTo {
				t.Errorf("a range of %d holds %d events, up to %s", len(held), len(chunk.Events), chunk.End)
			}
			chunks = append(chunks, chunk)
		}
		check("ranges", chunks)

		chunks = nil
		ahead, failed := readAhead(t.Context(), log.pool, size)
		for chunk := range ahead {
			chunks = append(chunks, chunk)
		}
		if err := failed(); err != nil {
			t.Fatal(err)
		}
		check("read ahead", chunks)
	}

	chunk, err := eventlog.ReadChunk(t.Context(), log.pool, events.Position{}, eventlog.NewFetchSize(1000),
		[]string{events.PostStream})
	if err != nil || len(chunk.Events) != 0 || chunk.Read != n || chunk.End != end {
		t.Errorf("streams that are not there: %d events of %d, %v", len(chunk.Events), chunk.Read, err)
	}
	chunk, err = eventlog.ReadAt(t.Context(), log.pool, []events.Position{want[3].Position, want[40].Position},
		eventlog.NewFetchSize(2))
	if diff := cmp.Diff([]events.Recorded{want[3], want[40]}, chunk.Events); diff != "" || err != nil {
		t.Errorf("single events, %v (-want +got):\n%s", err, diff)
	}
}

// readAhead reads the log from its beginning.
func readAhead(ctx context.Context, pool *pgxpool.Pool, size int) (<-chan eventlog.Chunk, func() error) {
	fetch := eventlog.NewFetchSize(size)
	return eventlog.ReadAhead(ctx, events.Position{},
		func(ctx context.Context, after events.Position) (eventlog.Chunk, error) {
			return eventlog.ReadChunk(ctx, pool, after, fetch, nil)
		})
}

// TestReadAheadEnds: the reader ends when the receiver has gone.
func TestReadAheadEnds(t *testing.T) {
	t.Parallel()
	log := setupLog(t)
	const n = 20
	for version := 1; version <= n; version++ {
		log.append(t, approval(1, version))
	}
	log.settle(t, n)
	ctx, cancel := context.WithCancel(t.Context())
	chunks, failed := readAhead(ctx, log.pool, 1)
	<-chunks
	cancel()
	if err := failed(); err == nil {
		t.Error("no error, although it was cut short")
	}
}
