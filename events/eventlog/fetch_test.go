package eventlog_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/testdb"
)

// long returns a comment with a text of size bytes.
func long(i, size int) events.Recorded {
	integration, key := uuid.UUID{1}, fmt.Sprintf("long-%d", i)
	return events.Recorded{
		StreamType: events.PostStream, StreamID: events.PostID(integration, key), StreamVersion: 1,
		ID: key, Source: events.PostsSource(integration),
		Event: events.PostImported{IntegrationID: integration, Comment: &events.Comment{
			ExternalUUID: "user", Username: "name", Content: strings.Repeat("x", size),
		}},
	}
}

const longText = 31_000

// setupLongLog returns a log of comments that are short, then long, then short again, and their identifiers.
func setupLongLog(t *testing.T) (storedLog, []string) {
	t.Helper()
	log := setupLog(t)
	const run = 700
	var all []string
	for part, size := range []int{10, longText, 10} {
		recorded := make([]events.Recorded, run)
		for i := range recorded {
			recorded[i] = long(part*run+i, size)
			all = append(all, recorded[i].ID)
		}
		log.append(t, recorded...)
	}
	testdb.Eventually(t, "the log has settled", func() bool {
		end := testdb.Must(eventlog.LastSettled(t.Context(), log.pool))(t)
		last, err := eventlog.Last(t.Context(), log.pool)
		return err == nil && end == last
	})
	return log, all
}

// held checks that the events of one read do not exceed MaxFetchBytes, and returns their identifiers.
func held(t *testing.T, batch []events.Recorded) []string {
	t.Helper()
	var all []string
	size := 0
	for i := range batch {
		all = append(all, batch[i].ID)
		e, ok := batch[i].Event.(events.PostImported)
		if !ok {
			t.Fatalf("event %s is a %T", batch[i].ID, batch[i].Event)
		}
		size += len(e.Comment.Content)
	}
	if most := eventlog.MaxFetchBytes + longText; size > most {
		t.Errorf("a read returned %d events of %d bytes, want at most %d bytes", len(batch), size, most)
	}
	return all
}

func wantAll(t *testing.T, got, want []string) {
	t.Helper()
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("%d events, or not in order; want %d", len(got), len(want))
	}
}

// TestReadersHoldOneFetch: however large events are, no read returns more than MaxFetchBytes, and no event is lost.
func TestReadersHoldOneFetch(t *testing.T) {
	t.Parallel()
	log, want := setupLongLog(t)
	pool := log.pool
	end := testdb.Must(eventlog.LastSettled(t.Context(), pool))(t)
	t.Run("ahead", func(t *testing.T) {
		t.Parallel()
		var got []string
		chunks, failed := readAhead(t.Context(), log.pool, 10_000)
		for chunk := range chunks {
			got = append(got, held(t, chunk.Events)...)
		}
		if err := failed(); err != nil {
			t.Fatal(err)
		}
		wantAll(t, got, want)
	})
	t.Run("rows", func(t *testing.T) {
		t.Parallel()
		log, err := eventlog.Identify(t.Context(), pool)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		fetch := eventlog.NewFetchSize(10_000)
		for span := (eventlog.Span{Full: true}); span.Full; {
			size := 0
			span, err = eventlog.ReadRows(t.Context(), pool, span.End, log, fetch, func(row *eventlog.Row) error {
				got, size = append(got, row.ID), size+len(row.Personal)
				return nil
			})
			if most := eventlog.MaxFetchBytes + longText + 1000; err != nil || size > most {
				t.Fatalf("%d bytes at a time, want %d at most; %v", size, most, err)
			}
		}
		wantAll(t, got, want)
	})
	t.Run("a range", func(t *testing.T) {
		t.Parallel()
		var got []string
		fetch := eventlog.NewFetchSize(10_000)
		for r := (eventlog.Range{UpTo: end}); r.After != r.UpTo; {
			chunk := testdb.Must(eventlog.ReadRange(t.Context(), log.pool, r, fetch, []string{events.PostStream}))(t)
			if chunk.Start != r.After || chunk.Full != (chunk.End != end) {
				t.Errorf("the chunk from %s to %s, full: %v, of one from %s to %s", chunk.Start, chunk.End, chunk.Full, r.After,
					r.UpTo)
			}
			got, r.After = append(got, held(t, chunk.Events)...), chunk.End
		}
		wantAll(t, got, want)
	})
	t.Run("positions", func(t *testing.T) {
		t.Parallel()
		all := testdb.Must(eventlog.ReadAfter(t.Context(), log.pool, events.Position{}, len(want)))(t)
		var got []string
		for fetch := eventlog.NewFetchSize(10_000); len(got) < len(all); {
			var positions []events.Position
			for i := len(got); i < min(len(got)+fetch.Limit(), len(all)); i++ {
				positions = append(positions, all[i].Position)
			}
			chunk, err := eventlog.ReadAt(t.Context(), log.pool, positions, fetch)
			if err != nil || len(chunk.Events) == 0 {
				t.Fatalf("%d events, %v", len(chunk.Events), err)
			}
			got = append(got, held(t, chunk.Events)...)
			if at := all[len(got)-1].Position; chunk.End != at {
				t.Fatalf("the chunk ends at %s, want %s", chunk.End, at)
			}
		}
		wantAll(t, got, want)
	})
	t.Run("a tail", func(t *testing.T) {
		t.Parallel()
		tail, log := openTail(t, log.pool, 0)
		for range 2 { // from the database, then from the cache
			var got []string
			for after := (events.Position{}); len(got) < len(want); {
				chunk := testdb.Must(tail.Read(t.Context(), after, log, nil))(t)
				if chunk.Full != (chunk.End != end) {
					t.Errorf("the chunk up to %s of %s, full: %v", chunk.End, end, chunk.Full)
				}
				got, after = append(got, held(t, chunk.Events)...), chunk.End
			}
			wantAll(t, got, want)
		}
	})
}

// TestFetchSizeOfOrdinaryEvents: after the first read, reads of small events reach maxEvents.
func TestFetchSizeOfOrdinaryEvents(t *testing.T) {
	t.Parallel()
	log := setupLog(t)
	const n, size = 3000, 1200
	recorded := make([]events.Recorded, n)
	for i := range recorded {
		recorded[i] = long(i, 400)
	}
	log.append(t, recorded...)
	log.settle(t, n)
	var read []int
	chunks, failed := readAhead(context.Background(), log.pool, size)
	for chunk := range chunks {
		read = append(read, chunk.Read)
	}
	if err := failed(); err != nil {
		t.Fatal(err)
	}
	if len(read) < 3 || read[0] < 100 || read[1] != size || read[2] != size {
		t.Errorf("chunks of %v events, want full ones of %d behind the first", read, size)
	}
}
