package relay_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/events/ledger"
	"novelgate/events/ledger/ledgertest"
	"novelgate/events/relay"
	"novelgate/events/relay/relaytest"
	"novelgate/internal/testdb"
)

// The partition comes from the novel: that of an event which only its thread or comment connects with it, too.
func TestSubjects(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	first := comment("a", "words")
	thread := staffEvent(events.ThreadStream, events.ThreadID(novelID), 1, events.ThreadOpened{NovelID: novelID})
	b.append(staffEvent(events.NovelStream, novelID, 1, events.NovelApproved{Reason: "r"}), thread, first)
	b.append(staffEvent(events.PostStream, first.StreamID, 2, events.PostHidden{Reason: "r"}),
		staffEvent(events.IntegrationStream, uuid.UUID{65}, 1, events.IntegrationEnabled{}))
	b.start(b.Ledger, 1, nil)
	b.awaitRelayed()
	main := b.messages(relay.StreamName(ledgertest.Origin))
	personal := b.messages(relay.PersonalStreamName(ledgertest.Origin))
	for i, want := range []string{
		"08.novel.approved.v1", "08.thread.opened.v1", "08.post.imported.v1", "08.post.hidden.v1",
		"01.integration.enabled.v1",
	} {
		sequence := uint64(i + 1)
		if got := main[sequence].Subject(); got != "novelgate.v1."+want {
			t.Errorf("event %d is published as %s, not %s", i, got, want)
		}
		if got := personal[sequence].Subject(); got != "novelgate.personal.v1."+want {
			t.Errorf("the personal part of event %d is published as %s, not %s", i, got, want)
		}
	}
	if salt := personal[3].Headers().Get(relay.SaltHeader); salt != first.Salt.UUID.String() {
		t.Errorf("the salt is %q", salt)
	}
	if n := testdb.Value[int64](t, b.Pool, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`); n != 1 {
		t.Errorf("the relay holds %d advisory locks", n)
	}
}

// One relay of a database is active. When it ends, another one takes over.
func TestOneIsActive(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	metrics := []*relay.Metrics{relay.NewMetrics(), relay.NewMetrics()}
	active := func(i int) bool { return testdb.Metric(t, metrics[i], "novelgate_relay_active") == 1 }
	for _, m := range metrics {
		m.AddLag(b.Pool, time.Now)
	}
	stop := b.start(b.Ledger, 1, metrics[0])
	testdb.Eventually(t, "the first one is active", func() bool { return active(0) })
	b.start(b.Ledger, 1, metrics[1])
	b.append(comments(40)...)
	b.awaitRelayed()
	if active(1) {
		t.Error("two are active")
	}
	stop()
	testdb.Eventually(t, "the second one is active", func() bool { return active(1) })
	b.append(comments(40)...)
	b.awaitRelayed()
	b.wantAll()
	testdb.Eventually(t, "there is no lag", func() bool {
		return testdb.Metric(t, metrics[1], "novelgate_relay_lag_events") == 0
	})
	if testdb.Metric(t, metrics[1], "novelgate_relay_events_total") != 40 {
		t.Error("the second one has not counted its 40 events")
	}
}

// The lag grows while NATS is away.
func TestLag(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	b.append(comments(10)...)
	metrics := relay.NewMetrics()
	metrics.AddLag(b.Pool, time.Now)
	b.start(b.Ledger, 1, metrics)
	b.awaitRelayed()
	testdb.Eventually(t, "the relay knows that it has relayed all", func() bool {
		return testdb.Metric(t, metrics, "novelgate_relay_lag_events") == 0
	})
	b.nats.Stop(0)
	b.append(comments(7)...)
	testdb.Eventually(t, "the lag is 7 events", func() bool {
		values := testdb.Metrics(t, metrics)
		return values["novelgate_relay_lag_events"] == 7 && values["novelgate_relay_lag_seconds"] > 0
	})
	b.nats.Start(0)
	testdb.Eventually(t, "there is no lag", func() bool {
		values := testdb.Metrics(t, metrics)
		return values["novelgate_relay_lag_events"] == 0 && values["novelgate_relay_lag_seconds"] == 0
	})
}

// What a failover would lose is not published: an event whose commit has not reached the synchronous standby.
func TestWaitsForStandby(t *testing.T) {
	t.Parallel()
	url, standby := testdb.NewSynchronousPair(t)
	b := &bundle{
		t: t, Ledger: &ledgertest.Ledger{Pool: testdb.Pool(t, url)}, nats: relaytest.New(t, 1), log: &testdb.Log{},
	}
	_, b.js = b.nats.Connect()
	testdb.Must(ledger.Identify(t.Context(), b.Pool, ledger.IdentityConfig{
		Origin: ledgertest.Origin, Directory: ledger.Directory(filepath.Join(t.TempDir(), "signer")),
	}))(t)
	b.append(comments(3)...)
	b.start(b.Ledger, 1, nil)
	b.awaitRelayed()
	standby.Cut(t)
	standby.Unreplicated(t, func(conn *pgx.Conn) error {
		var batch pgx.Batch
		if err := eventlog.Queue(&batch, comments(2)); err != nil {
			return err
		}
		return conn.SendBatch(context.Background(), &batch).Close()
	})
	testdb.Eventually(t, "the relay waits for the standby", func() bool { return standby.Waiting(t) == 1 })
	if last := b.stored(relay.StreamName(ledgertest.Origin)); last != 3 {
		t.Errorf("the stream has %d messages", last)
	}
	standby.Return(t)
	b.awaitRelayed()
	b.wantAll()
}
