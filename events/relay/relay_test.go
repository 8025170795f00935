package relay_test

import (
	"testing"

	"github.com/google/uuid"

	"novelgate/events"
	"novelgate/events/ledger/ledgertest"
	"novelgate/events/relay"
	"novelgate/internal/testdb"
)

// What was there before the relay, and what comes while it runs, is published in the order of the log.
func TestPublishes(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	b.append(comments(1500)...)
	b.seal()
	b.start(b.Ledger, 1, nil)
	b.awaitRelayed()
	for range 5 {
		b.append(comments(30)...)
	}
	b.awaitRelayed()
	b.wantAll()
}

// The partition comes from the novel: that of an event which only its thread or comment connects with it, too.
func TestSubjects(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	first := comment("a", "words")
	thread := staffEvent(events.ThreadStream, events.ThreadID(novelID), 1, events.ThreadOpened{NovelID: novelID})
	b.append(staffEvent(events.NovelStream, novelID, 1, events.NovelApproved{Reason: "r"}), thread, first)
	b.append(staffEvent(events.PostStream, first.StreamID, 2, events.PostHidden{Reason: "r"}),
		staffEvent(events.IntegrationStream, uuid.UUID{65}, 1, events.IntegrationEnabled{}))
	b.Sign()
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
