package replay_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/internal/bench/replay"
	"novelgate/internal/testdb"
	"novelgate/projections"
)

func TestMain(m *testing.M) { os.Exit(testdb.Run(m)) }

// Tables are exchanged again and again, and a reader notices nothing.
func TestRebuildInTheBackground(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), testdb.New(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	const n = 1000
	if err := replay.Generate(t.Context(), pool, time.Now(), n); err != nil {
		t.Fatal(err)
	}
	if err := testdb.AwaitSettled(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	// One discussion for the reader to look at.
	if _, err := pool.Exec(t.Context(),
		`INSERT INTO threads (novel_id, thread_id) SELECT DISTINCT (data ->> 'novelId')::uuid, (data ->> 'threadId')::uuid FROM events LIMIT 1`); err != nil {
		t.Fatal(err)
	}
	background, err := replay.StartRebuild(t.Context(), pool, projections.Posts{}, 2, false, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	watching, stop := context.WithCancel(t.Context())
	defer stop()
	watched := make(chan error, 1)
	reads := 0
	go func() {
		var err error
		reads, err = replay.Watch(watching, pool)
		watched <- err
	}()
	for deadline := time.Now().Add(time.Minute); background.Done().Switches < 3; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after a minute: %+v", background.Done())
		}
	}
	if err := background.Stop(); err != nil {
		t.Error(err)
	}
	stop()
	if err := <-watched; err != nil || reads == 0 {
		t.Errorf("%d reads, %v", reads, err)
	}
	if done := background.Done(); done.Events < 2*n {
		t.Errorf("%+v", done)
	}
	var posts int
	if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM posts`).Scan(&posts); err != nil || posts != n {
		t.Errorf("%d posts, %v", posts, err)
	}
}

// A reader that misses what it has seen says so.
func TestWatchNoticesLostRows(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), testdb.New(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	execute := func(statement string) {
		t.Helper()
		if _, err := pool.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	const thread = `'00000000-0000-0000-0000-000000000001'`
	execute(`INSERT INTO threads (novel_id, thread_id) VALUES (gen_random_uuid(), ` + thread + `)`)
	watched := make(chan error, 1)
	go func() {
		_, err := replay.Watch(t.Context(), pool)
		watched <- err
	}()
	for {
		execute(`INSERT INTO posts (post_id, thread_id, novel_id, integration_id, written_at, recorded_at, event_id)
VALUES (gen_random_uuid(), ` + thread + `, gen_random_uuid(), gen_random_uuid(), now(), now(), '')`)
		time.Sleep(30 * time.Millisecond)
		execute(`DELETE FROM posts`)
		select {
		case err := <-watched:
			if err == nil {
				t.Error("it noticed nothing")
			}
			return
		case <-time.After(30 * time.Millisecond):
		}
	}
}
