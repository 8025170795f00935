package database_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"novelgate/internal/database"
	"novelgate/internal/testdb"
)

// TestListen: a handler gets the notifications of its channel, and an empty one after each connection.
func TestListen(t *testing.T) {
	t.Parallel()
	const channel = `Tw"o`
	pool := testdb.Pool(t, testdb.New(t))
	heard := make(chan string, 100)
	stop := testdb.Background(t, func(ctx context.Context) {
		database.Listen(ctx, pool.Config().ConnConfig, slog.New(slog.DiscardHandler), channel,
			func(payload string) { heard <- payload })
	})
	expect := func(want string) {
		t.Helper()
		select {
		case got := <-heard:
			if got != want {
				t.Fatalf("heard %q, want %q", got, want)
			}
		case <-time.After(time.Minute):
			t.Fatalf("heard nothing, want %q", want)
		}
	}
	notify := func(channel, payload string) {
		t.Helper()
		testdb.Exec(t, pool, `SELECT pg_notify($1, $2)`, channel, payload)
	}
	expect("") // connected: something may have been missed
	notify("elsewhere", "not this one")
	notify(channel, "payload")
	expect("payload")
	if !testdb.Value[bool](t, pool, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE application_name = 'novelgate-listen' AND datname = current_database()`) {
		t.Fatal("the listening connection was not ended")
	}
	expect("") // connected again
	notify(channel, "again")
	expect("again")
	stop()
}
