package committer_test

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/aggregates/post"
	"novelgate/internal/testdb"
	"novelgate/migrations"
)

// TestCacheAfterCrash kills a process of the server: it recovers without starting anew, and gives the ids of
// transactions that left nothing on disk to others. A cache that has heard of the former must still hear of what
// staff decide then.
func TestCacheAfterCrash(t *testing.T) {
	t.Parallel()
	url := testdb.NewServer(t, map[string]string{"autovacuum": "off", "fsync": "on"})
	if err := migrations.Up(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	r := newReplica(t, url, oneLane)
	p := newPartner()
	cached(t, r, p, "Title")
	pool := direct(t, url)
	// Without this process, only a commit that waits for the disk writes to it.
	var writer int
	if err := pool.QueryRow(t.Context(), `SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'`).Scan(
		&writer); err != nil {
		t.Fatal(err)
	}
	signal(t, writer, syscall.SIGSTOP)
	before := nextTransaction(t, pool)
	for range 8 { // as the rate limiter commits
		execute(t, pool, `SELECT set_config('synchronous_commit', 'off', true), pg_current_xact_id()`)
	}
	// These write nothing, and check the cache, which hears of the transactions that there have been.
	stranger := newPartner()
	stranger.MayCreateNovels = false
	for i := range 2 {
		if a := r.submit(t.Context(), stranger.post(fmt.Sprint(i), "Unknown")); a.String() != notFound {
			t.Fatal(a)
		}
	}
	signal(t, writer, syscall.SIGKILL)
	testdb.Eventually(t, "the server has recovered", func() bool {
		var now int
		err := pool.QueryRow(t.Context(), `SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'`).Scan(&now)
		return err == nil && now != writer
	})
	if after := nextTransaction(t, pool); after > before+1 {
		t.Fatalf("the next transaction was %d before and is %d: none was lost", before, after)
	}
	if err := reject("Title")(newStaff(pool)); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		if a := r.submit(t.Context(), p.post(fmt.Sprint("after ", i), "Title")); !errors.Is(a.err, post.ErrNovelNotFound) {
			t.Errorf("comment %d on a title that was rejected: %v", i, a)
		}
	}
}

func signal(t *testing.T, pid int, signal syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, signal); err != nil {
		t.Fatal(err)
	}
}

func nextTransaction(t *testing.T, pool *pgxpool.Pool) (id int64) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), `SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint`).Scan(&id); err != nil {
		t.Fatal(err)
	}
	return id
}
