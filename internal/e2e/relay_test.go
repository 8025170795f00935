package e2e_test

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"novelgate/events/relay"
	"novelgate/events/relay/relaytest"
	"novelgate/internal/testdb"
)

// TestRelay: what partners send reaches NATS from the service, and from a relay in a process of its own. When staff
// erase an author, the words are gone from the files of the NATS server before consumers read of it.
func TestRelay(t *testing.T) {
	t.Parallel()
	nats := relaytest.New(t, 1)
	flags := []string{"--relay", nats.URL(), "--relay-replicas", "1"}
	s := Start(t, testdb.New(t), flags...)
	status := func() (status relay.Status) {
		t.Helper()
		s.runJSON(t, &status, append([]string{"relay", "status"}, flags...)...)
		return status
	}
	ada, p := s.NewStaff(t), s.NewPartner(t)
	title := Unique("Relayed")
	p.Import(t, Key(), Comment(title).With(Fields{"uuid": plantedUUID, "content": plantedWords})).WantPost(t, 201)
	db := testdb.Connect(t, s.DatabaseURL)
	awaitRelayed := func() relay.Status {
		t.Helper()
		testdb.Eventually(t, "everything is relayed", func() bool {
			return status().Relayed == testdb.Value[int64](t, db, `SELECT count(*) FROM events`)
		})
		return status()
	}
	relayed := awaitRelayed()
	if relayed.Events != 0 || relayed.Personal != relayed.Relayed || !strings.Contains(relayed.Origin, "/ledger/") {
		t.Errorf("the status is %+v", relayed)
	}
	if metrics := s.metrics(t); !strings.Contains(metrics, "novelgate_relay_active 1") ||
		!strings.Contains(metrics, "novelgate_relay_lag_events 0") {
		t.Error("the metrics do not show the relay")
	}
	holds := func() bool { return len(relaytest.Holding(t, nats.StoreDir(0), plantedWords)) > 0 }
	if !holds() {
		t.Fatal("the words are not in the files before the erasure")
	}
	ada.Delete(t, p.authorPath(plantedUUID)+"?reason=asked").WantJSON(t, 200, &struct{}{})
	_, js := nats.Connect()
	testdb.Eventually(t, "consumers read of the erasure", func() bool {
		stream, err := js.Stream(t.Context(), relayed.Stream)
		if err != nil {
			t.Fatal(err)
		}
		_, err = stream.GetMsg(t.Context(), 1, jetstream.WithGetMsgSubject("novelgate.v1.*.author.erased.>"))
		return err == nil
	})
	if holds() {
		t.Error("the words are in the files after the erasure")
	}
	s.Stop(t)

	// The service without a relay, and a relay.
	s = Start(t, s.DatabaseURL)
	alone := launch(t, append([]string{"relay", "--database-url", s.DatabaseURL}, flags...)...)
	p.Service = s
	p.Import(t, Key(), Comment(title)).WantPost(t, 201)
	if again := awaitRelayed(); again.Relayed <= relayed.Relayed || again.Erased != 1 {
		t.Errorf("the status is %+v", again)
	}
	alone.kill()
}
