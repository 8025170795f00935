package staff_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"novelgate/commands/staff"
	"novelgate/events"
	"novelgate/events/rebase"
	"novelgate/internal/database"
)

// TestInterruptedErasureMoves: an erasure that was interrupted before it came to the comments that posts did not have,
// and then moved to another cluster, is finished there by the command that is repeated.
func TestInterruptedErasureMoves(t *testing.T) {
	t.Parallel()
	l := setupLive(t)
	appendAll(t, l.Staff, l.comments(l.name, "projected", 2)...)
	l.caughtUp(t)
	l.stopFollowing()
	appendAll(t, l.Staff, l.comments(l.name, "behind", 3)...)
	l.interruptErasure(t)
	l.stopSealing()

	l.moveToAnotherCluster(t)
	l.seal(t)
	l.follow(t)
	l.caughtUp(t) // posts, too, has applied the erasure: only its record tells that something is left
	for _, when := range []string{"repeated", "repeated twice"} {
		if _, err := l.EraseAuthor(t.Context(), l.name, "asked for it"); err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		l.caughtUp(t)
		l.wantForgotten(t, planted+"|"+l.name.ExternalUUID)
	}
	if n := l.count(t, `SELECT count(*) FROM events WHERE event_type = 'author.erased.v1'`); n != 1 {
		t.Errorf("%d erasures are on record", n)
	}
}

// TestRebasedErasureSparesLaterComments: what came behind an erasure that has moved is a new beginning all the same.
func TestRebasedErasureSparesLaterComments(t *testing.T) {
	t.Parallel()
	l := setupLive(t)
	appendAll(t, l.Staff, l.comments(l.name, "old", 2)...)
	l.caughtUp(t)
	if _, err := l.EraseAuthor(t.Context(), l.name, "asked for it"); err != nil {
		t.Fatal(err)
	}
	l.stopFollowing()
	l.stopSealing()
	l.moveToAnotherCluster(t)
	l.seal(t)
	l.follow(t)
	appendAll(t, l.Staff, l.comments(l.name, "new", 2)...)
	l.caughtUp(t)
	again, err := l.EraseAuthor(t.Context(), l.name, "again")
	if err != nil || again.Comments != 2 {
		t.Errorf("%+v, %v", again, err)
	}
	l.caughtUp(t)
	l.wantForgotten(t, planted+"|"+l.name.ExternalUUID)
}

// interruptErasure ends the command when the erasure is on record and waits for an older transaction.
func (l *live) interruptErasure(t *testing.T) {
	t.Helper()
	older, err := l.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = older.Rollback(context.Background()) }()
	if _, err := older.Exec(t.Context(), `SELECT pg_current_xact_id()`); err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	ended := make(chan error, 1)
	go func() {
		_, err := l.EraseAuthor(ctx, l.name, "asked for it")
		ended <- err
	}()
	for deadline := time.Now().Add(time.Minute); l.count(t,
		`SELECT count(*) FROM events WHERE event_type = 'author.erased.v1'`) == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the erasure is not recorded")
		}
	}
	interrupt()
	if err := <-ended; !errors.Is(err, staff.ErrNotSettled) && !errors.Is(err, context.Canceled) {
		t.Fatalf("not interrupted: %v", err)
	}
	if n := l.count(t, `SELECT count(*) FROM events WHERE personal ->> 'content' IS NOT NULL`); n != 3 {
		t.Fatalf("%d comments are left, want 3", n)
	}
}

// leaveClusterSQL makes all transaction ids, wherever they are stored, so large as if they came from another cluster.
// The triggers that guard log and ledger are off meanwhile.
const leaveClusterSQL = `DO $do$
DECLARE it record;
BEGIN
	FOR it IN SELECT tgrelid::regclass AS of, tgname FROM pg_trigger WHERE NOT tgisinternal AND tgenabled = 'A' LOOP
		EXECUTE format('ALTER TABLE %s DISABLE TRIGGER %I', it.of, it.tgname);
	END LOOP;
	FOR it IN SELECT attrelid::regclass AS of, attname FROM pg_attribute JOIN pg_class AS c ON c.oid = attrelid
		WHERE atttypid = 'xid8'::regtype AND attnum > 0 AND relkind = 'r' AND relnamespace <> 'pg_catalog'::regnamespace LOOP
		EXECUTE format('UPDATE %1$s SET %2$I = (%2$I::text::bigint + 4000000000000)::text::xid8 WHERE %2$I > ''2''', it.of,
		    it.attname);
	END LOOP;
	FOR it IN SELECT tgrelid::regclass AS of, tgname FROM pg_trigger WHERE NOT tgisinternal AND tgenabled = 'D' LOOP
		EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER %I', it.of, it.tgname);
	END LOOP;
END $do$`

// moveToAnotherCluster makes the log one that was restored into another cluster, and rebases it.
func (l *live) moveToAnotherCluster(t *testing.T) {
	t.Helper()
	if _, err := l.Pool.Exec(t.Context(), leaveClusterSQL); err != nil {
		t.Fatal(err)
	}
	const others = `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'novelgate%'`
	for deadline := time.Now().Add(time.Minute); l.count(t, others) > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("who has stopped is still connected")
		}
	}
	history, err := database.OpenHistory(t.Context(), l.Pool.Config().ConnString())
	if err != nil {
		t.Fatal(err)
	}
	defer history.Close()
	conn, err := history.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	report, err := rebase.Run(t.Context(), rebase.Config{Conn: conn.Conn(), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	if stored := l.count(t, `SELECT count(*) FROM events WHERE transaction_id = $1`,
		events.Frozen); int64(stored) != report.Moved || stored == 0 {
		t.Errorf("%+v, %d events are there", report, stored)
	}
}
