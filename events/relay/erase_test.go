package relay_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"

	"novelgate/events"
	"novelgate/events/ledger/ledgertest"
	"novelgate/events/relay"
	"novelgate/events/relay/relaytest"
	"novelgate/internal/testdb"
)

// secret is planted in what is erased.
const secret = "a secret that nobody may find"

// record is the event that records an erasure.
func record(author string) events.Recorded {
	return staffEvent(events.AuthorStream, testdb.AuthorID(integrationID, author), 1,
		events.AuthorErased{IntegrationID: integrationID, Reason: "asked for"})
}

// eraseInLog erases comments in the log, as the staff action does.
func (b *bundle) eraseInLog(author string, erased ...events.Recorded) {
	b.t.Helper()
	streams := make([]uuid.UUID, len(erased))
	for i := range erased {
		streams[i] = erased[i].StreamID
	}
	if n := testdb.Value[int](b.t, b.Pool, `SELECT erase_author_events($1, $2, $3)`, integrationID, author, streams); n != len(erased) {
		b.t.Fatalf("%d of %d events were erased", n, len(erased))
	}
}

// Whoever is erased is gone from the files of the server when the record of the erasure is in the stream: the words of
// comments, published or not, and decisions about the author. Others keep their words.
func TestErases(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	first, late, other := comment("eve", secret+" 1"), comment("eve", secret+" 2"), comment("ada", "words that stay")
	eve := events.AuthorRef{IntegrationID: integrationID, Author: &events.ExternalAuthor{ExternalUUID: "eve"}}
	blocked := staffEvent(events.AuthorStream, testdb.AuthorID(integrationID, "eve"), 1,
		events.AuthorBlocked{AuthorRef: eve, Reason: "r"})
	blocked.Salt = uuid.NullUUID{UUID: uuid.New(), Valid: true}
	b.append(comments(50)...)
	b.append(first, other, blocked)
	b.append(comments(50)...)
	b.append(late)
	b.relayOnce()
	if len(relaytest.Holding(t, b.nats.StoreDir(0), secret)) == 0 {
		t.Fatal("the words are not in the files before the erasure")
	}

	unpublished, erasure := comment("eve", secret+" 3"), record("eve")
	erasure.StreamVersion = 2
	b.append(unpublished, erasure)
	b.eraseInLog("eve", first, blocked, late, unpublished)
	b.append(comment("eve", "after the erasure"))
	b.relayOnce()
	if found := relaytest.Holding(t, b.nats.StoreDir(0), secret); len(found) > 0 {
		t.Errorf("found in %v", found)
	}
	for _, kept := range []string{"words that stay", "after the erasure"} {
		if len(relaytest.Holding(t, b.nats.StoreDir(0), kept)) == 0 {
			t.Errorf("%q is lost", kept)
		}
	}
	b.wantAll()
}

// A withdrawn comment is gone from the files of the server, with its edits, published or not, when its withdrawal is in
// the stream. Other comments of the author keep their words.
func TestErasesWithdrawn(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	withdrawn, other := comment("eve", secret+" 1"), comment("eve", "words that stay")
	edit := withdrawn
	edit.StreamVersion, edit.ID, edit.Source = 2, "edit", events.PostEditsSource(integrationID)
	edit.Event = events.PostEdited{
		NewText: true, Comment: &events.Comment{ExternalUUID: "eve", Username: "name", Content: secret + " 2"},
	}
	b.append(withdrawn, other)
	b.relayOnce()
	withdrawal := staffEvent(events.PostStream, withdrawn.StreamID, 3, events.PostWithdrawn{})
	withdrawal.Source = events.PostWithdrawalsSource(integrationID)
	b.append(edit, withdrawal)
	testdb.Exec(t, b.Pool, `SELECT erase_post_events(ARRAY[$1::uuid])`, withdrawn.StreamID)
	b.relayOnce()
	if found := relaytest.Holding(t, b.nats.StoreDir(0), secret); len(found) > 0 {
		t.Errorf("found in %v", found)
	}
	if len(relaytest.Holding(t, b.nats.StoreDir(0), "words that stay")) == 0 {
		t.Error("another comment of the author is lost")
	}
	b.wantAll()
}

// A relay that ends between an erasure and its record repeats the erasure; so does one that starts on a stream that was
// restored from a backup.
func TestErasesAgain(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	erased := comment("eve", secret)
	b.append(comments(10)...)
	b.append(erased)
	b.relayOnce()
	b.eraseInLog("eve", erased)
	stop := b.start(b.Ledger, 1, nil) // there is nothing to publish
	testdb.Eventually(t, "the words are gone", func() bool {
		return len(relaytest.Holding(t, b.nats.StoreDir(0), secret)) == 0
	})
	stop()
	b.append(record("eve"))
	b.relayOnce()
	b.wantAll()
}

// In a cluster the words are gone from the files of the stream when the record of the erasure is in the main stream.
// The servers' Raft logs have them until the next snapshot, which is at most three minutes away.
func TestErasesInCluster(t *testing.T) {
	t.Parallel()
	b := setup(t, 3)
	erased := comment("eve", secret)
	b.append(comments(200)...)
	b.append(erased)
	b.start(b.Ledger, 3, nil)
	b.awaitRelayed()
	b.eraseInLog("eve", erased)
	b.append(record("eve"))
	b.awaitRelayed()
	for i := range 3 {
		stream := filepath.Join(b.nats.StoreDir(i), "jetstream", "$G", "streams", relay.PersonalStreamName(ledgertest.Origin))
		testdb.Eventually(t, fmt.Sprint("the stream of server ", i, " has lost the words"), func() bool {
			return len(relaytest.Holding(t, stream, secret)) == 0
		})
	}
	if os.Getenv(commentsVariable) == "" {
		return // the rest takes minutes
	}
	for i := range 3 {
		for looks := 4 * 60; len(relaytest.Holding(t, b.nats.StoreDir(i), secret)) > 0; looks-- {
			if looks == 0 {
				t.Fatalf("server %d has it in %v", i, relaytest.Holding(t, b.nats.StoreDir(i), secret))
			}
			time.Sleep(time.Second)
		}
	}
}
