package relay_test

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"novelgate/events/eventlog"
	"novelgate/events/ledger/ledgertest"
	"novelgate/events/relay"
	"novelgate/events/relay/relaytest"
	"novelgate/internal/testdb"
)

// refuses fails the test unless a relay stops with a reason, and changes nothing. It returns the metrics.
func (b *bundle) refuses(of *ledgertest.Ledger, reason string) *relay.Metrics {
	b.t.Helper()
	name := relay.StreamName(ledgertest.Origin)
	before := b.stored(name)
	metrics, known := relay.NewMetrics(), len(b.log.String())
	stop := b.start(of, 1, metrics)
	testdb.Eventually(b.t, "the log says "+reason, func() bool { return strings.Contains(b.log.String()[known:], reason) })
	stop()
	if after := b.stored(name); after != before {
		b.t.Errorf("the stream went from sequence %d to %d", before, after)
	}
	if value := testdb.Metric(b.t, metrics, "novelgate_relay_refused"); value != 1 {
		b.t.Errorf("novelgate_relay_refused is %v", value)
	}
	return metrics
}

// relayOnce relays all there is.
func (b *bundle) relayOnce() {
	b.t.Helper()
	stop := b.start(b.Ledger, 1, nil)
	b.awaitRelayed()
	stop()
}

func partAt(index int) string { return fmt.Sprintf("part at log index %d:", index) }

// A failover that has lost events leaves a stream that has more than the log, and then differs from it.
func TestRefusesLogThatWasSetBack(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	b.append(comments(40)...)
	restored := b.Backup()
	b.append(comments(25)...)
	b.relayOnce()

	b.refuses(restored, partAt(40))
	appendTo(t, restored, comments(3)...)
	b.refuses(restored, partAt(40)+" their events differ")
	appendTo(t, restored, comments(60)...)
	metrics := b.refuses(restored, partAt(40)+" their events differ")
	metrics.AddLag(restored.Pool, time.Now)
	testdb.Eventually(t, "the lag is the 63 other events of the log", func() bool {
		return testdb.Metric(t, metrics, "novelgate_relay_lag_events") == 63
	})

	// The relay of the stream's own log still continues.
	b.append(comments(5)...)
	b.relayOnce()
	b.wantAll()
}

// When only the personal stream has what the log has lost, its words would belong to other comments.
func TestRefusesPersonalStreamThatIsAhead(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	b.append(comments(10)...)
	restored := b.Backup()
	b.append(comments(10)...)
	b.relayOnce()
	testdb.NoError(t, b.js.DeleteStream(t.Context(), relay.StreamName(ledgertest.Origin)))
	appendTo(t, restored, comments(30)...)
	b.refuses(restored, "-personal and the log "+partAt(10))
}

// A message that is larger than the servers take stops the relay. The log says what to set.
func TestRefusesEventLargerThanMaxPayload(t *testing.T) {
	t.Parallel()
	const limit = 4096
	b := &bundle{t: t, Ledger: ledgertest.New(t), log: &testdb.Log{}}
	var options *server.Options
	b.nats = relaytest.New(t, 1, func(o *server.Options) { o.MaxPayload, options = limit, o })
	_, b.js = b.nats.Connect()
	b.append(comment("a", "small"))
	b.relayOnce()
	b.append(comment("a", "small"), comment("a", strings.Repeat("x", limit)))
	b.refuses(b.Ledger, "-personal cannot take the event at log index 2: it is a message of ")
	said := regexp.MustCompile(`of (\d+) bytes, and the NATS servers take 4096: set max_payload to (\d+) or more`).
		FindStringSubmatch(b.log.String())
	if said == nil || said[1] != said[2] {
		t.Fatalf("the log says %s", b.log)
	}
	b.nats.Stop(0)
	size := testdb.Must(strconv.ParseInt(said[1], 10, 32))(t)
	options.MaxPayload = int32(size)
	b.nats.Start(0)
	b.relayOnce()
	b.wantAll()
}

// A relay with nothing to publish notices that a stream was deleted, says so, and fills it again.
func TestNoticesDeletedStreamsWhileIdle(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	b.append(comments(10)...)
	wake := eventlog.NewWake()
	conn, _ := b.nats.Connect()
	r := testdb.Must(relay.New(relay.Config{
		Database: b.Pool.Config().ConnConfig, Conn: conn, Replicas: 1, Tail: tailOf(t, b.Pool), Wake: wake,
		Logger: b.log.Logger(),
	}))(t)
	testdb.Background(t, r.Run)
	for _, name := range []string{relay.StreamName(ledgertest.Origin), relay.PersonalStreamName(ledgertest.Origin)} {
		b.awaitRelayed()
		testdb.NoError(t, b.js.DeleteStream(t.Context(), name))
		testdb.Eventually(t, name+" is filled again", func() bool {
			wake.Signal() // an idle read, without the wait of a second
			return b.last(name) == 10
		})
		b.awaitLog("filling it again from the log\" stream=" + name)
	}
	b.wantAll()
}

// A relay notices also while it runs that its database is set back.
func TestRefusesSetBackWhileItRuns(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	b.append(comments(20)...)
	b.start(b.Ledger, 1, nil)
	b.awaitRelayed()
	testdb.Lose(t, b.Pool, `log_index = 15`)
	b.awaitLog(partAt(15) + " the log ends there")
	b.append(comments(10)...)
	b.awaitLog(partAt(15) + " their events differ")
	if last := b.stored(relay.StreamName(ledgertest.Origin)); last != 20 {
		t.Errorf("the stream has %d messages", last)
	}
}

// The Tail may be connected to another server than the relay, for instance to a former primary.
func TestPublishesNothingOfAnotherLog(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	b.append(comments(10)...)
	other := b.Backup()
	b.relayOnce()
	appendTo(t, other, comments(5)...)
	conn, _ := b.nats.Connect()
	r := testdb.Must(relay.New(relay.Config{
		Database: b.Pool.Config().ConnConfig, Conn: conn, Replicas: 1, Tail: tailOf(t, other.Pool),
		Logger: b.log.Logger(),
	}))(t)
	testdb.Background(t, r.Run)
	b.awaitLog(eventlog.ErrOtherLog.Error())
	if last := b.stored(relay.StreamName(ledgertest.Origin)); last != 10 {
		t.Errorf("the stream has %d messages", last)
	}
}

func TestRefusesTamperedMessage(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	b.append(comments(20)...)
	b.relayOnce()
	name := relay.StreamName(ledgertest.Origin)
	b.append(comments(20)...)
	for what, change := range map[string]func(m *nats.Msg){
		"another leaf": func(m *nats.Msg) {
			m.Header.Set(relay.LeafHeader, base64.StdEncoding.EncodeToString(make([]byte, 32)))
		},
		"no leaf": func(m *nats.Msg) { m.Header = nats.Header{} },
	} {
		t.Run(what, func(t *testing.T) {
			forged := setup(t, 1)
			forged.Ledger = b.Ledger
			forged.relayOnce()
			testdb.NoError(t, forged.js.DeleteStream(t.Context(), name))
			testdb.Must(forged.js.CreateStream(t.Context(), configOf(t, b.js, name)))(t)
			list := b.messages(name)
			for sequence := uint64(1); list[sequence] != nil; sequence++ {
				m := list[sequence]
				copied := &nats.Msg{Subject: m.Subject(), Data: m.Data(), Header: nats.Header{}}
				copied.Header.Set(relay.LeafHeader, m.Headers().Get(relay.LeafHeader))
				if sequence == 20 {
					change(copied)
				}
				testdb.Must(forged.js.PublishMsg(t.Context(), copied))(t)
			}
			forged.refuses(b.Ledger, partAt(19))
		})
	}
}

func configOf(t testing.TB, js jetstream.JetStream, name string) jetstream.StreamConfig {
	t.Helper()
	found := testdb.Must(js.Stream(t.Context(), name))(t)
	config := found.CachedInfo().Config
	config.Metadata = map[string]string{"novelgate-origin": config.Metadata["novelgate-origin"]}
	return config
}

// A stream that an operator or another ledger has made differently is left alone.
func TestRefusesOtherStreams(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		change func(*jetstream.StreamConfig)
		reason string
	}{
		"another ledger": {
			func(c *jetstream.StreamConfig) {
				c.Name, c.Metadata = "other", map[string]string{"novelgate-origin": "other"}
			},
			`it takes novelgate.v1.> and belongs to \"other\"`,
		},
		"another origin": {
			func(c *jetstream.StreamConfig) { c.Metadata = map[string]string{"novelgate-origin": "other"} }, `it belongs to \"other\"`,
		},
		"messages expire": {
			func(c *jetstream.StreamConfig) { c.MaxMsgs = 1000 }, "does not keep all messages",
		},
		"messages can be deleted": {
			func(c *jetstream.StreamConfig) { c.DenyDelete = false }, "deny_delete",
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			b := setup(t, 1)
			b.append(comments(3)...)
			config := jetstream.StreamConfig{
				Name: relay.StreamName(ledgertest.Origin), Subjects: []string{"novelgate.v1.>"}, DenyDelete: true, DenyPurge: true,
				AllowAtomicPublish: true, Metadata: map[string]string{"novelgate-origin": ledgertest.Origin},
			}
			c.change(&config)
			testdb.Must(b.js.CreateStream(t.Context(), config))(t)
			b.refuses(b.Ledger, c.reason)
		})
	}
}

// TestRefusalEnds: two relays have refused a stream. Once it is deleted, one of them fills another one, and neither
// says any more that it refuses.
func TestRefusalEnds(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	b.append(comments(3)...)
	name := relay.StreamName(ledgertest.Origin)
	testdb.Must(b.js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: name, Subjects: []string{"novelgate.v1.>"}, AllowAtomicPublish: true, MaxMsgs: 1000,
		Metadata: map[string]string{"novelgate-origin": ledgertest.Origin},
	}))(t)
	metrics := []*relay.Metrics{relay.NewMetrics(), relay.NewMetrics()}
	refuses := func(i int) bool { return testdb.Metric(t, metrics[i], "novelgate_relay_refused") == 1 }
	for i, m := range metrics {
		b.start(b.Ledger, 1, m)
		testdb.Eventually(t, fmt.Sprint("refused by ", i), func() bool { return refuses(i) })
	}
	testdb.NoError(t, b.js.DeleteStream(t.Context(), name))
	b.awaitRelayed()
	testdb.Eventually(t, "neither refuses", func() bool { return !refuses(0) && !refuses(1) })
}

// A new origin is a new stream, with the whole log. The stream of the former origin keeps its messages.
func TestNewOrigin(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	b.append(comments(10)...)
	b.start(b.Ledger, 1, nil)
	b.awaitRelayed()
	const next = "ledger.example/next"
	b.SignAs(next)
	b.append(comments(5)...)
	testdb.Eventually(t, "the new stream has the whole log", func() bool { return b.last(relay.StreamName(next)) == 15 })
	former, current := b.messages(relay.StreamName(ledgertest.Origin)), b.messages(relay.StreamName(next))
	if len(former) != 10 {
		t.Errorf("the former stream has %d messages", len(former))
	}
	for sequence, m := range former {
		if string(m.Data()) != string(current[sequence].Data()) {
			t.Errorf("sequence %d differs", sequence)
		}
	}
	// Consumers of the former stream go on by the subjects of its messages.
	consumer := testdb.Must(b.js.CreateConsumer(t.Context(), relay.StreamName(ledgertest.Origin),
		jetstream.ConsumerConfig{FilterSubject: "novelgate.v1.*.novel.>"}))(t)
	if m, err := consumer.Next(); err != nil || m.Subject() == "" {
		t.Errorf("the former stream does not deliver: %v", err)
	}
}
