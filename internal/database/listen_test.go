package database_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"novelgate/internal/database"
	"novelgate/internal/testdb"
)

func TestListen(t *testing.T) {
	t.Parallel()
	url := testdb.New(t)
	pool := testdb.Pool(t, url)
	heard := make(chan string, 100)
	handle := func(channel string) func(string) { return func(payload string) { heard <- channel + ":" + payload } }

	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		database.Listen(ctx, pool.Config().ConnConfig, slog.New(slog.DiscardHandler),
			map[string]func(string){"one": handle("one"), `Tw"o`: handle("two")})
	}()
	expect := func(want ...string) {
		t.Helper()
		missing := map[string]bool{}
		for _, w := range want {
			missing[w] = true
		}
		for len(missing) > 0 {
			select {
			case got := <-heard:
				if !missing[got] {
					t.Fatalf("heard %q, want %q", got, want)
				}
				delete(missing, got)
			case <-time.After(time.Minute):
				t.Fatalf("heard nothing of %v", missing)
			}
		}
	}
	notify := func(channel, payload string) {
		t.Helper()
		testdb.Exec(t, pool, `SELECT pg_notify($1, $2)`, channel, payload)
	}

	expect("one:", "two:") // connected: something may have been missed
	notify("one", "payload")
	expect("one:payload")
	notify("elsewhere", "payload")
	notify(`Tw"o`, "")
	expect("two:")

	rows := testdb.Must(pool.Query(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE application_name = 'novelgate-listen' AND datname = current_database()`))(t)
	if ended, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[bool]); err != nil || !ended {
		t.Fatalf("the listening connection was not ended: %v", err)
	}
	expect("one:", "two:") // connected again
	notify("one", "again")
	expect("one:again")

	cancel()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("it listens on")
	}
}
