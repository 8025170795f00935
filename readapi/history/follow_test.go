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
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/events/eventlog"
	"novelgate/internal/testdb"
	"novelgate/readapi/history"
)

// TestNothingIsLostOrDoubled breaks a stream repeatedly and continues from the last cursor, while writers append.
func TestNothingIsLostOrDoubled(t *testing.T) {
	t.Parallel()
	const writers, transactions = 4, 60
	url := testdb.New(t)
	pool := openURL(t, url)
	appends := testdb.Pool(t, url)
	wake := eventlog.NewWake()
	ctx, cancel := context.WithTimeout(t.Context(), testdb.Patience)
	defer cancel()
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

	const total = writers * transactions * 2
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
	wg.Wait()
	stored := testdb.Must(all(t.Context(), pool, history.Filter{}, 1000, 1000))(t)
	if diff := cmp.Diff(idsOf(stored), got); diff != "" || len(stored) != total {
		t.Errorf("%d events (-log +streams):\n%s", len(stored), diff)
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

// TestEndOfAnotherServer: an end that was read from a failed server is refused if the current one lacks it. If the
// server lags, a page does not lead back to it.
func TestEndOfAnotherServer(t *testing.T) {
	t.Parallel()
	pool := open(t)
	store(t, pool, post("a"))
	store(t, pool, post("b"))
	reader := newReader(t, pool)
	end := testdb.Must(reader.End(t.Context()))(t)
	first := testdb.Must(history.At(t.Context(), pool, 0))(t)
	page, err := reader.Page(t.Context(), end, first.Cursor(), 9)
	if err != nil || len(page.Events) > 0 || page.More || page.Next != end {
		t.Errorf("with an end that lags: %+v, %v", page, err)
	}
	end.Batch = uuid.New()
	if _, err := reader.Page(t.Context(), history.Cursor{}, end, 9); !errors.Is(err, history.ErrCursorMismatch) {
		t.Errorf("%v, want ErrCursorMismatch", err)
	}
}
