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

// settle waits until the appended events are settled, which any transaction on the server may delay.
func (l storedLog) settle(t testing.TB, want int) []events.Recorded {
	t.Helper()
	var read []events.Recorded
	testdb.Eventually(t, fmt.Sprint(want, " events have settled"), func() bool {
		var err error
		if read, err = eventlog.ReadAfter(t.Context(), l.pool, events.Position{}, want+1); err != nil {
			t.Fatal(err)
		}
		return len(read) >= want
	})
	return read
}

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
		if got[i].Position.TransactionID == 0 || got[i].Position.Ordinal != int32(i) || got[i].RecordedAt.Before(before) {
			t.Errorf("read at %s, recorded at %s", got[i].Position, got[i].RecordedAt)
		}
		got[i].Position, got[i].RecordedAt = events.Position{}, time.Time{}
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
		"start": {
			versions(eventlog.ReadStreamStart(t.Context(), log.pool, events.NovelStream, one, 2)), []int{1, 2},
		},
		"more than all": {
			versions(eventlog.ReadStreamStart(t.Context(), log.pool, events.NovelStream, one, 9)), []int{1, 2, 3, 4, 5},
		},
		"end": {
			versions(eventlog.ReadStreamEnd(t.Context(), log.pool, events.NovelStream, one, 2)), []int{4, 5},
		},
		"of another kind":  {versions(eventlog.ReadStreamStart(t.Context(), log.pool, events.PostStream, one, 2)), nil},
		"end of that kind": {versions(eventlog.ReadStreamEnd(t.Context(), log.pool, events.PostStream, one, 2)), nil},
	} {
		if diff := cmp.Diff(tc.want, tc.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestReadAfterWaitsForOlderTransactions: an event that commits late must not appear after one that was read.
func TestReadAfterWaitsForOlderTransactions(t *testing.T) {
	t.Parallel()
	log := setupLog(t)
	late := testdb.Begin(t, log.pool)
	var batch pgx.Batch
	if err := eventlog.Queue(&batch, []events.Recorded{approval(1, 1)}); err != nil {
		t.Fatal(err)
	}
	if err := late.SendBatch(t.Context(), &batch).Close(); err != nil {
		t.Fatal(err)
	}
	log.append(t, approval(2, 1)) // began later, is committed earlier

	for range 20 {
		early := testdb.Must(eventlog.ReadAfter(t.Context(), log.pool, events.Position{}, 10))(t)
		if len(early) > 0 {
			t.Fatalf("%s was read while an older transaction was open", early[0].ID)
		}
		time.Sleep(time.Millisecond)
	}
	if stream, err := eventlog.ReadStream(t.Context(), log.pool, events.NovelStream, uuid.UUID{2}, 0); err != nil ||
		len(stream) != 1 {
		t.Errorf("the stream itself: %d events, %v", len(stream), err)
	}
	if err := late.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := log.settle(t, 2)
	if len(got) != 2 || got[0].StreamID != (uuid.UUID{1}) || got[1].StreamID != (uuid.UUID{2}) {
		t.Errorf("read %+v", got)
	}
}

// TestReadAfterNeverSkips: writers commit in another order than they begin.
func TestReadAfterNeverSkips(t *testing.T) {
	t.Parallel()
	const writers, transactions = 6, 40
	log := setupLog(t)
	var wg sync.WaitGroup
	for writer := range writers {
		wg.Go(func() {
			for n := 1; n <= transactions; n++ {
				if err := appendSlowly(t.Context(), log, approval(byte(writer+1), n)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	seen := map[string]bool{}
	versions := map[uuid.UUID]int{}
	after := events.Position{}
	deadline := time.Now().Add(testdb.SettleTimeout)
	for len(seen) < writers*transactions && time.Now().Before(deadline) {
		page := testdb.Must(eventlog.ReadAfter(t.Context(), log.pool, after, 7))(t)
		for _, recorded := range page {
			if recorded.Position.Compare(after) <= 0 || seen[recorded.ID] {
				t.Fatalf("%s at %s was read after %s", recorded.ID, recorded.Position, after)
			}
			if recorded.StreamVersion != versions[recorded.StreamID]+1 {
				t.Fatalf("version %d of stream %s after version %d", recorded.StreamVersion, recorded.StreamID,
					versions[recorded.StreamID])
			}
			after, seen[recorded.ID], versions[recorded.StreamID] = recorded.Position, true, recorded.StreamVersion
		}
	}
	wg.Wait()
	if len(seen) != writers*transactions {
		t.Errorf("%d of %d events were read", len(seen), writers*transactions)
	}
}

// appendSlowly keeps its transaction open for a moment.
func appendSlowly(ctx context.Context, log storedLog, recorded events.Recorded) error {
	tx, err := log.pool.Begin(ctx)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	var batch pgx.Batch
	if err := eventlog.Queue(&batch, []events.Recorded{recorded}); err != nil {
		return err
	}
	if err := tx.SendBatch(ctx, &batch).Close(); err != nil {
		return fmt.Errorf("append: %w", err)
	}
	time.Sleep(rand.N(4 * time.Millisecond))
	if err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

func TestUndecodableEventIsNamed(t *testing.T) {
	t.Parallel()
	log := setupLog(t)
	log.append(t, approval(1, 1))
	_, err := log.pool.Exec(t.Context(), `INSERT INTO events (position, stream_type, stream_id, stream_version, event_id, event_source, event_type, data, actor, batch_id)
		VALUES (5, 'novel', $1, 2, 'k', 's', 'novel.translated.v1', '{}', 'test', gen_random_uuid())`, uuid.UUID{1})
	if err != nil {
		t.Fatal(err)
	}
	got, err := eventlog.ReadStream(t.Context(), log.pool, events.NovelStream, uuid.UUID{1}, 0)
	var undecodable *eventlog.UndecodableError
	if !errors.Is(err, events.ErrUnknownType) || !errors.As(err, &undecodable) {
		t.Fatalf("got %v, %v", got, err)
	}
	if undecodable.Type != "novel.translated.v1" || undecodable.Recorded.Position.Ordinal != 5 ||
		undecodable.Recorded.ID != "k" {
		t.Errorf("named %+v", undecodable)
	}
}
