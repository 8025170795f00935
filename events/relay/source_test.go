package relay_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/events/ledger"
	"novelgate/events/ledger/audit"
	"novelgate/events/ledger/ledgertest"
	"novelgate/events/relay"
	"novelgate/internal/testdb"
)

// source returns the source of a ledger over a connection, which has read a checkpoint.
func (b *bundle) source(conn *nats.Conn) *relay.Source {
	b.t.Helper()
	note := b.Latest().Note
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if _, err := w.Write(note); err != nil {
			b.t.Error(err)
		}
	}))
	b.t.Cleanup(server.Close)
	s, err := relay.NewSource(conn, &audit.Service{Client: server.Client(), URL: server.URL})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(s.Close)
	if _, err := s.Checkpoint(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
	return s
}

// read asks a source for most events, until it has want of them. A source returns those that come soon after each
// other, and fails while the stream does not have the next one.
func (b *bundle) read(s *relay.Source, first int64, want, most int) (list []ledger.Event) {
	b.t.Helper()
	testdb.Eventually(b.t, fmt.Sprint(want, " events are read"), func() bool {
		more, err := s.Events(b.t.Context(), first+int64(len(list)), most-len(list), 0)
		if err != nil && !strings.Contains(err.Error(), notYet) {
			b.t.Fatal(err)
		}
		list = append(list, more...)
		return len(list) >= want
	})
	return list
}

// notYet is in the error of a source for an event that is not in the stream.
const notYet = "does not have it yet"

// logged reads events from the log, as a source without entries has them.
func (b *bundle) logged(first int64, count int) []ledger.Event {
	b.t.Helper()
	size := testdb.Value[int64](b.t, b.Pool, `SELECT tree_size FROM ledger_state`)
	list, err := audit.NewDatabase(b.Pool).Events(b.t.Context(), first, count, size)
	if err != nil {
		b.t.Fatal(err)
	}
	for i := range list {
		list[i].PersonalDigest = nil
	}
	return list
}

var sameEvents = cmp.Options{
	cmpopts.IgnoreUnexported(eventlog.Row{}), cmpopts.IgnoreFields(eventlog.Row{}, "Position"), cmpopts.EquateEmpty(),
}

// The streams have all of the stored events, byte by byte, except the digests of what was erased.
func TestSourceHasTheLog(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	var full events.Metadata
	for i := range 3 {
		full = events.Metadata{
			Actor: "staff:Zoë", KeyID: uuid.New(), RequestID: "request", Correlation: "undertaking", Causation: "x",
			Batch: uuid.New(), Fingerprint: events.FingerprintOf(uuid.New(), []byte{byte(i)}), TraceParent: "00-1-2-01",
		}
		recorded := comments(1500)
		recorded[7].Metadata, recorded[8].Metadata = full, full
		recorded[9] = comment("eve", "words that are erased")
		b.append(recorded...)
	}
	b.Sign()
	b.start(b.Ledger, 1, nil)
	b.awaitRelayed()
	b.append(staffEvent(events.AuthorStream, events.AuthorID(integrationID, "eve"), 1, events.AuthorErased{
		IntegrationID: integrationID, Reason: "r", Searched: "0/0",
	}))
	testdb.Exec(t, b.Pool, `SELECT erase_author_events($1, 'eve', ARRAY(SELECT stream_id FROM events WHERE personal ->> 'uuid' = 'eve'))`,
		integrationID)
	b.Sign()
	b.awaitRelayed()

	conn, _ := b.nats.Connect()
	s := b.source(conn)
	read := func(first int64, count int) []ledger.Event {
		t.Helper()
		return b.read(s, first, count, count)
	}
	for _, part := range []struct {
		first int64
		count int
	}{{0, 4000}, {4000, 501}, {4490, 11}, {1500, 20}, {1520, 1}} {
		if diff := cmp.Diff(b.logged(part.first, part.count), read(part.first, part.count), sameEvents); diff != "" {
			t.Fatalf("%d events from log index %d on (-log +source)\n%.3000s", part.count, part.first, diff)
		}
	}
	if erased := read(1509, 1)[0]; erased.Personal != nil || erased.Salt.Valid {
		t.Errorf("an erased event has %s", erased.Personal)
	}
	b.appendSealed(comments(10)...)
	if diff := cmp.Diff(b.logged(4501, 10), read(4501, 10), sameEvents); diff != "" {
		t.Errorf("later events (-log +source)\n%.3000s", diff)
	}
}

// republish replaces a stream by one with other messages.
func (b *bundle) republish(name string, list []*nats.Msg) {
	b.t.Helper()
	subjects := relay.MainPrefix + ">"
	if name == relay.PersonalStreamName(ledgertest.Origin) {
		subjects = relay.PersonalPrefix + ">"
	}
	b.nats.Replace(b.js, jetstream.StreamConfig{Name: name, Subjects: []string{subjects}}, list)
}

// What is missing in a stream is told apart: an event, a personal part that was erased, and one that is not there yet.
func TestSourceOfIncompleteStreams(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	b.appendSealed(comments(20)...)
	stop := b.start(b.Ledger, 1, nil)
	b.awaitRelayed()
	stop()
	conn, _ := b.nats.Connect()
	s := b.source(conn)
	main, personal := relay.StreamName(ledgertest.Origin), relay.PersonalStreamName(ledgertest.Origin)
	words := b.nats.Copy(b.js, personal)
	wantFailed := func(first int64, want string) error {
		t.Helper()
		list, err := s.Events(t.Context(), first, 10, 20)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d events, %v, want an error with %q", len(list), err, want)
		}
		return err
	}

	// The personal stream has lost its end.
	b.republish(personal, words[:15])
	if _, err := s.Events(t.Context(), 0, 15, 20); err != nil {
		t.Error(err)
	}
	if err := wantFailed(19, "message 20 of "+personal); errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("the end of the personal stream: %v", err)
	}
	b.republish(personal, words)
	if diff := cmp.Diff(b.logged(10, 10), b.read(s, 10, 10, 10), sameEvents); diff != "" {
		t.Errorf("(-log +source)\n%.3000s", diff)
	}
	// Its last message, and one in between, are erased.
	stream, err := b.js.Stream(t.Context(), personal)
	if err != nil {
		t.Fatal(err)
	}
	for _, sequence := range []uint64{13, 20} {
		if err := stream.SecureDeleteMsg(t.Context(), sequence); err != nil {
			t.Fatal(err)
		}
	}
	want := b.logged(10, 10)
	for _, i := range []int{2, 9} {
		want[i].Personal, want[i].Salt = nil, uuid.NullUUID{}
	}
	if diff := cmp.Diff(want, b.read(s, 10, 10, 10), sameEvents); diff != "" {
		t.Errorf("(-log +source)\n%.3000s", diff)
	}

	// The main stream has a gap, ends early, and has messages that say too little.
	events := b.nats.Copy(b.js, main)
	events[4].Header.Del(relay.FingerprintHeader)
	events[5].Data = []byte("{}")
	events[6].Header.Set(relay.FingerprintHeader, "x")
	words[7].Header.Set(relay.SaltHeader, "x")
	b.republish(personal, words)
	b.republish(main, events[:15])
	if stream, err = b.js.Stream(t.Context(), main); err != nil {
		t.Fatal(err)
	}
	if err := stream.DeleteMsg(t.Context(), 12); err != nil {
		t.Fatal(err)
	}
	list := b.read(s, 0, 11, 20)
	if len(list) != 11 {
		t.Fatalf("%d events", len(list))
	}
	for i, text := range map[int]string{4: "an older version", 5: "attribute", 6: "fingerprint", 7: "salt"} {
		if list[i].Broken == nil || !strings.Contains(list[i].Broken.Error(), text) {
			t.Errorf("log index %d: %v", i, list[i].Broken)
		}
	}
	if err := wantFailed(11, "log index 11"); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("a gap is no %v", ledger.ErrNotFound)
	}
	if list := b.read(s, 12, 3, 20); len(list) != 3 {
		t.Errorf("%d events", len(list))
	}
	if err := wantFailed(15, notYet); errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("the end of the stream: %v", err)
	}
}
