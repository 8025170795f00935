package eventlog_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/testdb"
)

// insertRaw appends an event of any type and data, by hand.
func (l storedLog) insertRaw(
	t testing.TB, streamType string, stream uuid.UUID, version int, id, eventType, data string,
) {
	t.Helper()
	testdb.Exec(t, l.pool, `INSERT INTO events (log_index, stream_type, stream_id, stream_version, event_id, event_source, event_type, data, actor, batch_id)
		VALUES ((SELECT count(*) FROM events), $1, $2, $3, $4, 'test', $5, $6::text::json, 'test', gen_random_uuid())`,
		streamType, stream, version, id, eventType, data)
}

func TestReadStream(t *testing.T) {
	t.Parallel()
	log := setupLog(t)
	before, one := time.Now().Add(-time.Minute), uuid.UUID{1}
	appended := []events.Recorded{approval(1, 1), approval(2, 1), approval(1, 2), approval(1, 3)}
	appended[3].Salt = uuid.NullUUID{UUID: uuid.UUID{7}, Valid: true}
	log.append(t, appended[:2]...)
	log.append(t, appended[2:]...)
	stream := func(kind string, after int) []events.Recorded {
		return testdb.Must(eventlog.ReadStream(t.Context(), log.pool, kind, one, after))(t)
	}
	end := func(kind string, n int) []events.Recorded {
		return testdb.Must(eventlog.ReadStreamEnd(t.Context(), log.pool, kind, one, n))(t)
	}
	for name, c := range map[string]struct {
		got  []events.Recorded
		want []int // indexes
	}{
		"all":              {stream(events.NovelStream, 0), []int{0, 2, 3}},
		"after version 1":  {stream(events.NovelStream, 1), []int{2, 3}},
		"end":              {end(events.NovelStream, 2), []int{2, 3}},
		"more than all":    {end(events.NovelStream, 9), []int{0, 2, 3}},
		"of another kind":  {stream(events.PostStream, 0), nil},
		"end of that kind": {end(events.PostStream, 2), nil},
	} {
		if len(c.got) != len(c.want) {
			t.Errorf("%s: %d events, want %d", name, len(c.got), len(c.want))
			continue
		}
		want := []events.Recorded{}
		for i, index := range c.want {
			if recordedAt := c.got[i].RecordedAt; recordedAt.Before(before) {
				t.Errorf("%s: recorded at %s", name, recordedAt)
			}
			want = append(want, appended[index])
			want[i].LogIndex, want[i].RecordedAt = int64(index), c.got[i].RecordedAt
		}
		if diff := cmp.Diff(want, c.got); diff != "" {
			t.Errorf("%s (-appended +read):\n%s", name, diff)
		}
	}
	// An event that cannot be decoded is named.
	log.insertRaw(t, events.NovelStream, one, 4, "k", "novel.translated.v1", `{}`)
	_, err := eventlog.ReadStream(t.Context(), log.pool, events.NovelStream, one, 0)
	var undecodable *eventlog.UndecodableError
	if !errors.Is(err, events.ErrUnknownType) || !errors.As(err, &undecodable) ||
		undecodable.Type != "novel.translated.v1" || undecodable.Recorded.LogIndex != 4 || undecodable.Recorded.ID != "k" {
		t.Errorf("got %v, %+v", err, undecodable)
	}
}

// TestReadersSeeEachEventOnce: writers race, abort and hold their transactions open; every reader sees dense indexes in
// the order of commits, each event once, also while another transaction of the cluster writes and stays open.
func TestReadersSeeEachEventOnce(t *testing.T) {
	t.Parallel()
	const writers, transactions, readers = 6, 40, 3
	log := setupLog(t)
	open := testdb.Begin(t, log.pool)
	testdb.Exec(t, open, `INSERT INTO settings (name, value) VALUES ('open', '')`)
	ctx, cancel := context.WithTimeout(t.Context(), testdb.Patience)
	defer cancel()
	var wg sync.WaitGroup
	for writer := range writers {
		wg.Go(func() {
			for n := 1; n <= transactions; n++ {
				if err := appendSlowly(ctx, log, approval(byte(writer+1), n)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for reader := range readers {
		wg.Go(func() {
			versions := map[uuid.UUID]int{}
			for at := events.Position(0); at < writers*transactions; {
				page, err := eventlog.ReadFrom(ctx, log.pool, at, 1+3*reader)
				if err != nil {
					t.Error(err)
					return
				}
				for i := range page {
					r := &page[i]
					if r.LogIndex != int64(at) || r.StreamVersion != versions[r.StreamID]+1 {
						t.Errorf("version %d of stream %s at %d, after version %d at %d", r.StreamVersion, r.StreamID,
							r.LogIndex, versions[r.StreamID], at)
						return
					}
					at, versions[r.StreamID] = r.End(), r.StreamVersion
				}
			}
		})
	}
	wg.Wait()
	if n := log.count(t, "events"); n != writers*transactions {
		t.Errorf("%d events, want %d", n, writers*transactions)
	}
}

// appendSlowly appends, sometimes only at the second attempt, and keeps its transaction open for a moment.
func appendSlowly(ctx context.Context, log storedLog, recorded events.Recorded) error {
	for abort := rand.N(3) == 0; ; abort = false {
		err := pgx.BeginFunc(ctx, log.pool, func(tx pgx.Tx) error {
			if err := appendOn(ctx, tx, recorded); err != nil {
				return err
			}
			time.Sleep(rand.N(2 * time.Millisecond))
			if abort {
				return errAborted
			}
			return nil
		})
		if !errors.Is(err, errAborted) {
			return err
		}
	}
}

var errAborted = errors.New("aborted")
