package eventlog_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"novelgate/events/eventlog"
	"novelgate/internal/testdb"
)

func TestIdentity(t *testing.T) {
	t.Parallel()
	pool, _, _ := setup(t, eventlog.SubscriptionConfig{})
	identity, err := eventlog.Identify(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	var stored string
	if err := pool.QueryRow(t.Context(), `SELECT `+eventlog.IdentitySQL).Scan(&stored); err != nil {
		t.Fatal(err)
	}
	if identity.String() != stored {
		t.Errorf("%q is rendered as %q", stored, identity)
	}
	var want eventlog.Identity
	var started time.Time
	err = pool.QueryRow(t.Context(), `SELECT system_identifier, timeline_id, id, pg_postmaster_start_time()
		FROM pg_control_system(), pg_control_checkpoint(), log_identity`).Scan(&want.System, &want.Timeline, &want.Log, &started)
	if err != nil {
		t.Fatal(err)
	}
	want.Started = started.UnixMicro()
	if diff := cmp.Diff(want, identity); diff != "" {
		t.Errorf("identity differs (-want +got):\n%s", diff)
	}
	for _, text := range []any{"", "1 2 3", "1 00000001 x 2", []byte("no"), nil} {
		if err := new(eventlog.Identity).Scan(text); err == nil {
			t.Errorf("%v is taken for an identity", text)
		}
	}
}

// What a process has kept of a log is not handed out once the log is another one.
func TestTailForgetsAnotherLog(t *testing.T) {
	t.Parallel()
	wake, tail := eventlog.NewWake(), eventlog.NewTail()
	config := eventlog.SubscriptionConfig{Wake: wake, Tail: tail}
	pool, first, firstMessages := setup(t, config)
	kept := appendThreads(t, pool, "kept", 2)
	appendThreads(t, pool, "lost", 3)
	wake.Signal()
	m := receive(t, firstMessages)
	for before := batchOf(t, first, m); len(before.Events) < 5; before = batchOf(t, first, m) {
		first.Seek(before.Start, before.Identity) // not all has settled
		m.Ack()
		m = receive(t, firstMessages)
	}
	testdb.Lose(t, pool, `event_id LIKE 'lost%'`)

	config.DB = eventlog.OpenPolls(pool.Config().ConnConfig, 1)
	t.Cleanup(func() { _ = config.DB.Close() })
	second, secondMessages := follow(t, config)
	batch := batchOf(t, second, receive(t, secondMessages))
	if diff := cmp.Diff(kept, ids(batch)); diff != "" {
		t.Errorf("a subscription gets other events than the log has (-log +got):\n%s", diff)
	}
	identity, err := eventlog.Identify(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	if batch.Identity != identity {
		t.Errorf("the batch is of %v, the log is %v", batch.Identity, identity)
	}
}

// A subscription that stands behind the end of another log is told so, although nothing comes behind its position.
func TestSubscriptionTellsOfAnotherLog(t *testing.T) {
	t.Parallel()
	wake := eventlog.NewWake()
	pool, subscription, messages := setup(t, eventlog.SubscriptionConfig{Wake: wake})
	appendThreads(t, pool, "lost", 3)
	wake.Signal()
	var before eventlog.Batch
	for read := 0; read < 3; read += len(before.Events) {
		m := receive(t, messages)
		before = batchOf(t, subscription, m)
		subscription.Seek(before.End, before.Identity)
		m.Ack()
	}
	testdb.Lose(t, pool, `true`)
	wake.Signal()
	batch := batchOf(t, subscription, receive(t, messages))
	if len(batch.Events) != 0 || batch.Start != before.End || batch.End != before.End ||
		batch.Identity == before.Identity {
		t.Errorf("the message stands for %+v", batch)
	}
}
