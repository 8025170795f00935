package eventlog_test

import (
	"context"
	"errors"
	"fmt"
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

func TestReadStream(t *testing.T) {
	t.Parallel()
	log := setupLog(t)
	appended := []events.Recorded{approval(1, 1), approval(2, 1), approval(1, 2), approval(1, 3)}
	appended[2].Salt = uuid.NullUUID{UUID: uuid.UUID{7}, Valid: true}
	before := time.Now().Add(-time.Minute)
	log.append(t, appended[:2]...)
	log.append(t, appended[2:]...)

	got := testdb.Must(eventlog.ReadStream(t.Context(), log.pool, events.NovelStream, uuid.UUID{1}, 1))(t)
	if len(got) != 2 {
		t.Fatalf("%d events after version 1, want 2", len(got))
	}
	for i, want := range appended[2:] {
		if got[i].LogIndex != int64(i+2) || got[i].RecordedAt.Before(before) {
			t.Errorf("read at %d, recorded at %s", got[i].LogIndex, got[i].RecordedAt)
		}
		got[i].LogIndex, got[i].RecordedAt = 0, time.Time{}
		if diff := cmp.Diff(want, got[i]); diff != "" {
			t.Errorf("(-appended +read):\n%s", diff)
		}
	}
	if none, err := eventlog.ReadStream(t.Context(), log.pool, events.NovelStream, uuid.UUID{9}, 0); err != nil ||
		len(none) != 0 {
		t.Errorf("an unknown stream: %v, %v", none, err)
	}
	if none, err := eventlog.ReadStream(t.Context(), log.pool, events.PostStream, uuid.UUID{1}, 0); err != nil ||
		len(none) != 0 {
		t.Errorf("a stream of another kind: %v, %v", none, err)
	}
}

func TestReadStreamInPart(t *testing.T) {
	t.Parallel()
	log := setupLog(t)
	for version := range 5 {
		log.append(t, approval(1, version+1))
	}
	versions := func(recorded []events.Recorded, err error) (list []int) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range recorded {
			list = append(list, r.StreamVersion)
		}
		return list
	}
	one := uuid.UUID{1}
	for name, tc := range map[string]struct{ got, want []int }{
		"all": {
			versions(eventlog.ReadStream(t.Context(), log.pool, events.NovelStream, one, 0)), []int{1, 2, 3, 4, 5},
		},
		"more than all": {
			versions(eventlog.ReadStreamEnd(t.Context(), log.pool, events.NovelStream, one, 9)), []int{1, 2, 3, 4, 5},
		},
		"end": {
			versions(eventlog.ReadStreamEnd(t.Context(), log.pool, events.NovelStream, one, 2)), []int{4, 5},
		},
		"of another kind":  {versions(eventlog.ReadStream(t.Context(), log.pool, events.PostStream, one, 0)), nil},
		"end of that kind": {versions(eventlog.ReadStreamEnd(t.Context(), log.pool, events.PostStream, one, 2)), nil},
	} {
		if diff := cmp.Diff(tc.want, tc.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
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
			var batch pgx.Batch
			eventlog.Lock(&batch)
			if err := eventlog.Queue(&batch, []events.Recorded{recorded}); err != nil {
				return err
			}
			if err := tx.SendBatch(ctx, &batch).Close(); err != nil {
				return fmt.Errorf("append: %w", err)
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

func TestUndecodableEventIsNamed(t *testing.T) {
	t.Parallel()
	log := setupLog(t)
	log.append(t, approval(1, 1))
	_, err := log.pool.Exec(t.Context(), `INSERT INTO events (log_index, stream_type, stream_id, stream_version, event_id, event_source, event_type, data, actor, batch_id)
		VALUES (5, 'novel', $1, 2, 'k', 's', 'novel.translated.v1', '{}', 'test', gen_random_uuid())`, uuid.UUID{1})
	if err != nil {
		t.Fatal(err)
	}
	got, err := eventlog.ReadStream(t.Context(), log.pool, events.NovelStream, uuid.UUID{1}, 0)
	var undecodable *eventlog.UndecodableError
	if !errors.Is(err, events.ErrUnknownType) || !errors.As(err, &undecodable) {
		t.Fatalf("got %v, %v", got, err)
	}
	if undecodable.Type != "novel.translated.v1" || undecodable.Recorded.LogIndex != 5 ||
		undecodable.Recorded.ID != "k" {
		t.Errorf("named %+v", undecodable)
	}
}
