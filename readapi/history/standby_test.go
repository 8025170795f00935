package history_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events/eventlog"
	"novelgate/internal/testdb"
	"novelgate/readapi/history"
)

// storeUnreplicated appends an event that only the primary has, because the wait of its commit is cancelled.
func storeUnreplicated(t *testing.T, standby *testdb.Standby, r row) {
	t.Helper()
	standby.Unreplicated(t, func(conn *pgx.Conn) error {
		return pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error { return insert(t.Context(), tx, []row{r}) })
	})
}

// TestReadsWaitForTheSynchronousStandby: no read returns an event that only the primary has, nor a cursor after it,
// before the standby has it.
func TestReadsWaitForTheSynchronousStandby(t *testing.T) {
	t.Parallel()
	url, standby := testdb.NewSynchronousPair(t)
	pool, lost := openURL(t, url), post("lost")
	store(t, pool, post("a"))
	standby.Cut(t)
	storeUnreplicated(t, standby, lost)

	type answer struct {
		name string
		ids  []string
		err  error
	}
	reads := map[string]func(pool *pgxpool.Pool) ([]string, error){
		"a page": func(pool *pgxpool.Pool) ([]string, error) {
			page, err := pageOf(t.Context(), pool, history.Filter{}, "", 9, 0)
			return idsOf(page.Events), err
		},
		"a page without a match, but with a cursor": func(pool *pgxpool.Pool) ([]string, error) {
			page, err := pageOf(t.Context(), pool, history.Filter{Type: "none"}, "", 9, 0)
			return idsOf(page.Events), err
		},
		"a log index": func(pool *pgxpool.Pool) ([]string, error) {
			e, err := history.At(t.Context(), pool, 1)
			return []string{e.ID}, err
		},
	}
	want := map[string][]string{
		"a page": {"a", "lost"}, "a page without a match, but with a cursor": {}, "a log index": {"lost"},
	}
	answers := make(chan answer, len(reads))
	for name, read := range reads {
		testdb.Background(t, func(context.Context) {
			ids, err := read(pool)
			answers <- answer{name, ids, err}
		})
	}
	testdb.Eventually(t, "all reads wait for the standby", func() bool {
		if len(answers) > 0 {
			t.Fatalf("answered while the standby is away: %+v", <-answers)
		}
		return standby.Waiting(t) == len(reads)
	})
	standby.Return(t)
	got := map[string][]string{}
	for range reads {
		a := <-answers
		if a.err != nil {
			t.Errorf("%s: %v", a.name, a.err)
		}
		got[a.name] = a.ids
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("once the standby is back (-want +got):\n%s", diff)
	}
}

// TestStreamsAndTheSynchronousStandby: a stream that has nothing to send does not wait for the standby, and one that
// has an event that only the primary has does. When it loses patience, it ends and keeps no connection.
func TestStreamsAndTheSynchronousStandby(t *testing.T) {
	t.Parallel()
	url, standby := testdb.NewSynchronousPair(t)
	pool := openURL(t, url)
	store(t, pool, post("a"))
	var idle atomic.Int64
	sent, ended := make(chan []history.Event, 9), make(chan error, 2)
	follow := func(after history.Cursor, patience time.Duration) {
		stream := &history.Stream{Reader: newReader(t, pool), Follow: true, Patience: patience}
		testdb.Background(t, func(ctx context.Context) {
			ended <- stream.Run(ctx, after, func(list []history.Event) error {
				sent <- list
				return nil
			}, func() error {
				idle.Add(1)
				return nil
			})
		})
	}
	follow(history.Cursor{}, time.Hour)
	first := <-sent
	standby.Cut(t)
	idle.Store(0)
	testdb.Eventually(t, "the stream reads the log without a wait", func() bool { return idle.Load() > 3 })

	storeUnreplicated(t, standby, post("lost"))
	testdb.Eventually(t, "the stream waits for the standby", func() bool { return standby.Waiting(t) == 1 })
	follow(first[0].Cursor(), 100*time.Millisecond)
	if err := <-ended; !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a stream without patience ends with %v", err)
	}
	testdb.Eventually(t, "its connection is free", func() bool { return standby.Waiting(t) == 1 })
	if len(sent) > 0 {
		t.Errorf("sent while the standby is away: %v", idsOf(<-sent))
	}
	standby.Return(t)
	if diff := cmp.Diff([]string{"lost"}, idsOf(<-sent)); diff != "" {
		t.Errorf("once the standby is back (-want +got):\n%s", diff)
	}
}

// TestCursorsOnAStandby: a standby lacks an event because it lags, or because the primary has lost it. So it does not
// refuse a cursor, but is unavailable for it.
func TestCursorsOnAStandby(t *testing.T) {
	t.Parallel()
	url, standby := testdb.NewSynchronousPair(t)
	pool, lagging := openURL(t, url), openURL(t, standby.URL)
	store(t, pool, post("a"))
	standby.Cut(t)
	storeUnreplicated(t, standby, post("b"))
	var after history.Cursor
	if err := pool.QueryRow(t.Context(), `SELECT log_index + 1, batch_id FROM events WHERE event_id = 'b'`).Scan(
		&after.Position, &after.Batch); err != nil {
		t.Fatal(err)
	}
	check := func(pool *pgxpool.Pool) error {
		var batch pgx.Batch
		after.QueueCheck(&batch)
		return pool.SendBatch(t.Context(), &batch).Close()
	}
	if err := check(pool); err != nil {
		t.Errorf("on the primary: %v", err)
	}
	if err := check(lagging); !eventlog.IsAway(err) {
		t.Errorf("on a standby that lags: %v", err)
	}
	standby.Return(t)
	testdb.Eventually(t, "the standby has the event", func() bool { return check(lagging) == nil })
}
