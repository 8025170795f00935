package history_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"novelgate/events/eventlog"
	"novelgate/internal/testdb"
	"novelgate/readapi/history"
)

// TestNothingIsLostOrDoubled breaks a stream repeatedly and continues from the last cursor, while writers append in
// transactions that commit in another order than they begin, and one transaction stays open.
func TestNothingIsLostOrDoubled(t *testing.T) {
	t.Parallel()
	const writers, transactions = 4, 60
	url := testdb.New(t)
	pool := openURL(t, url)
	appends := testdb.Pool(t, url)
	wake := eventlog.NewWake()

	held := testdb.Connect(t, url)
	holding := testdb.Begin(t, held)
	if err := insert(t.Context(), holding, []row{post("held 0"), post("held 1")}); err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithTimeout(t.Context(), testdb.SettleTimeout)
	defer cancel()
	done := make(chan struct{})
	var wg sync.WaitGroup
	for writer := range writers {
		wg.Go(func() {
			for n := range transactions {
				rows := []row{post(fmt.Sprint(writer, "/", n, "/a")), post(fmt.Sprint(writer, "/", n, "/b"))}
				err := pgx.BeginFunc(ctx, appends, func(tx pgx.Tx) error {
					if err := insert(ctx, tx, rows); err != nil {
						return err
					}
					time.Sleep(rand.N(4 * time.Millisecond))
					return nil
				})
				if err != nil {
					t.Error(err)
				}
				wake.Signal()
			}
		})
	}
	go func() {
		defer close(done)
		wg.Wait()
		// Nothing is settled yet, because of the open transaction.
		if err := holding.Commit(ctx); err != nil {
			t.Error(err)
		}
		// From now on read during appends.
		for n := range transactions {
			late := []row{post(fmt.Sprint("late ", n))}
			if err := pgx.BeginFunc(ctx, appends, func(tx pgx.Tx) error { return insert(ctx, tx, late) }); err != nil {
				t.Error(err)
			}
			wake.Signal()
		}
	}()

	const total = writers*transactions*2 + 2 + transactions
	var got []string
	var cursor history.Cursor
	errCut := errors.New("cut")
	for cuts := 0; len(got) < total && ctx.Err() == nil; cuts++ {
		reader := newReader(t, pool)
		left := rand.IntN(60)
		err := (&history.Stream{Reader: reader, Follow: true, Wake: wake}).Run(ctx, cursor,
			func(list []history.Event) error {
				for i := range list {
					if left--; left < 0 {
						return errCut // also in the middle of a page
					}
					got = append(got, list[i].ID)
					cursor = list[i].Cursor()
				}
				if len(got) >= total {
					return errCut
				}
				return nil
			}, func() error {
				if rand.IntN(4) == 0 {
					return errCut
				}
				return nil
			})
		if !errors.Is(err, errCut) {
			t.Fatalf("after %d events: %v", len(got), err)
		}
	}
	<-done
	settle(t, pool)
	stored := testdb.Must(all(t.Context(), pool, history.Filter{}, 1000, 1000))(t)
	want := make([]string, len(stored))
	for i := range stored {
		want[i] = stored[i].ID
	}
	if diff := cmp.Diff(want, got); diff != "" || len(want) != total {
		t.Errorf("%d events (-log +streams):\n%s", len(want), diff)
	}
}

// TestHeldBack: events of a transaction are shown once all older transactions have ended.
func TestHeldBack(t *testing.T) {
	t.Parallel()
	pool := open(t)
	held := testdb.Begin(t, pool)
	if err := insert(t.Context(), held, []row{post("first")}); err != nil {
		t.Fatal(err)
	}
	store(t, pool, post("second"))
	if early, err := all(t.Context(), pool, history.Filter{}, 10, 10); err != nil || len(early) != 0 {
		t.Errorf("early: %d events, %v", len(early), err)
	}
	if err := held.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	settle(t, pool)
	late, err := all(t.Context(), pool, history.Filter{}, 10, 10)
	if err != nil || len(late) != 2 || late[0].ID != "first" || late[1].ID != "second" {
		t.Errorf("late: %v, %v", places(late), err)
	}
}

// TestWithoutSignals: an append without a signal is found, too.
func TestWithoutSignals(t *testing.T) {
	t.Parallel()
	pool := open(t)
	reader := newReader(t, pool)
	stored := make(chan struct{})
	time.AfterFunc(50*time.Millisecond, func() {
		defer close(stored)
		store(t, pool, post("silent"))
	})
	errFound := errors.New("found")
	ctx, cancel := context.WithTimeout(t.Context(), testdb.SettleTimeout)
	defer cancel()
	err := (&history.Stream{Reader: reader, Follow: true}).Run(ctx, history.Cursor{},
		func([]history.Event) error { return errFound }, func() error { return nil })
	<-stored // it is visible before store has returned
	if !errors.Is(err, errFound) {
		t.Error(err)
	}
}

func TestStreamsEnd(t *testing.T) {
	t.Parallel()
	pool := open(t)
	for n := range 1200 / 100 {
		rows := make([]row, 100)
		for i := range rows {
			rows[i] = post(fmt.Sprint(n, "/", i))
		}
		store(t, pool, rows...)
	}
	reader := newReader(t, pool)
	settle(t, pool)
	for limit, want := range map[int]int{0: 1200, 1: 1, 500: 500, 501: 501, 1199: 1199, 1200: 1200, 5000: 1200} {
		got := 0
		err := (&history.Stream{Reader: reader, Limit: limit}).Run(t.Context(), history.Cursor{},
			func(list []history.Event) error {
				got += len(list)
				return nil
			}, func() error { return nil })
		if err != nil || got != want {
			t.Errorf("limit %d: %d events, %v", limit, got, err)
		}
	}
}

// TestStreamsOfALogThatIsSetBack: a stream ends when its log loses the event at its position.
func TestStreamsOfALogThatIsSetBack(t *testing.T) {
	t.Parallel()
	pool := open(t)
	store(t, pool, post("kept"))
	store(t, pool, post("lost"))
	settle(t, pool)
	reader := newReader(t, pool)
	ctx, cancel := context.WithTimeout(t.Context(), testdb.SettleTimeout)
	defer cancel()
	var got []string
	err := (&history.Stream{Reader: reader, Follow: true}).Run(ctx, history.Cursor{}, func(list []history.Event) error {
		for i := range list {
			got = append(got, list[i].ID)
		}
		if len(got) == 2 {
			transaction := list[len(list)-1].Position.TransactionID
			tamper(t, pool, `DELETE FROM events WHERE event_id = 'lost'`)
			storeAt(t, pool, transaction, post("instead"))
			store(t, pool, post("later"))
		}
		return nil
	}, func() error { return nil })
	if diff := cmp.Diff([]string{"kept", "lost"}, got); diff != "" || !errors.Is(err, history.ErrCursorMismatch) {
		t.Errorf("%v, want ErrCursorMismatch (-want +got):\n%s", err, diff)
	}
}

// TestHorizonOfAnotherServer: events that had settled on a failed server may not have settled on the current one.
func TestHorizonOfAnotherServer(t *testing.T) {
	t.Parallel()
	pool := open(t)
	reader := newReader(t, pool)
	horizon := testdb.Must(reader.Horizon(t.Context()))(t)
	if _, err := reader.Page(t.Context(), history.Cursor{}, horizon.Ahead(1_000_000_000), 9); !errors.Is(err,
		history.ErrCursorMismatch) {
		t.Errorf("%v, want ErrCursorMismatch", err)
	}
}
