package eventlog_test

import (
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
	end := testdb.Must(eventlog.End(t.Context(), log.pool))(t)
	readAll := func(t *testing.T, read func(from eventlog.Mark) (eventlog.Chunk, error)) {
		t.Helper()
		var got []string
		for from := (eventlog.Mark{}); len(got) < len(want); {
			chunk := testdb.Must(read(from))(t)
			if chunk.Start != from.Position || chunk.Full != (chunk.End != end) {
				t.Errorf("the chunk from %s to %s of %s, full: %v", from, chunk.End, end, chunk.Full)
			}
			got, from = append(got, held(t, chunk.Events)...), chunk.End
		}
		wantAll(t, got, want)
	}
	t.Run("chunks", func(t *testing.T) {
		t.Parallel()
		fetch := eventlog.NewFetchSize(10_000)
		readAll(t, func(from eventlog.Mark) (eventlog.Chunk, error) {
			return eventlog.ReadChunk(t.Context(), log.pool, from, fetch, []string{events.PostStream})
		})
	})
	t.Run("a tail", func(t *testing.T) {
		t.Parallel()
		tail := openTail(t, log.pool, 0)
		for range 2 { // from the database, then from the cache
			readAll(t, func(from eventlog.Mark) (eventlog.Chunk, error) { return tail.Read(t.Context(), from, nil) })
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
	var read []int
	fetch, from := eventlog.NewFetchSize(size), eventlog.Mark{}
	for full := true; full; {
		chunk := testdb.Must(eventlog.ReadChunk(t.Context(), log.pool, from, fetch, nil))(t)
		read, from, full = append(read, chunk.Read), chunk.End, chunk.Full
	}
	if len(read) < 3 || read[0] < 100 || read[1] != size || read[2] != size {
		t.Errorf("chunks of %v events, want full ones of %d behind the first", read, size)
	}
}
