package e2e_test

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"novelgate/events/relay"
	"novelgate/events/relay/relaytest"
	"novelgate/internal/testdb"
)

// TestRelay: what partners send reaches NATS from the service. When staff erase an author, the words are gone from the
// files of the NATS server before consumers read of it.
func TestRelay(t *testing.T) {
	t.Parallel()
	nats := relaytest.New(t, 1)
	s := Start(t, testdb.New(t), "--relay", nats.URL(), "--relay-replicas", "1")
	ada, p := s.NewStaff(t), s.NewPartner(t)
	p.Import(t, Key(), Comment(Unique("Relayed")).With(Fields{"uuid": plantedUUID, "content": plantedWords})).
		WantPost(t, 201)
	awaitSigned(t, s.DatabaseURL)
	_, js := nats.Connect()
	name, db := relay.StreamName(*ledgerStatus(t, s).Origin), testdb.Connect(t, s.DatabaseURL)
	var stream jetstream.Stream
	testdb.Eventually(t, "everything is relayed", func() bool {
		var err error
		if stream, err = js.Stream(t.Context(), name); err != nil {
			return false // not there yet
		}
		want := testdb.Value[int64](t, db, `SELECT count(*) FROM events`)
		return stream.CachedInfo().State.LastSeq == uint64(want)
	})
	testdb.Eventually(t, "the metrics show the relay", func() bool {
		text := s.metrics(t)
		return metric(text, "novelgate_relay_active") == "1" && metric(text, "novelgate_relay_lag_events") == "0"
	})
	holds := func() bool { return len(relaytest.Holding(t, nats.StoreDir(0), plantedWords)) > 0 }
	if !holds() {
		t.Fatal("the words are not in the files before the erasure")
	}
	ada.Delete(t, p.authorPath(plantedUUID)+"?reason=asked").WantJSON(t, 200, &struct{}{})
	testdb.Eventually(t, "consumers read of the erasure", func() bool {
		_, err := stream.GetMsg(t.Context(), 1, jetstream.WithGetMsgSubject("novelgate.v1.*.author.erased.>"))
		return err == nil
	})
	if holds() {
		t.Error("the words are in the files after the erasure")
	}
	if erased := metric(s.metrics(t), "novelgate_relay_erasures_total"); erased != "1" {
		t.Errorf("%s erasures are counted", erased)
	}
}
