package e2e_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"novelgate/events/relay"
	"novelgate/events/relay/relaytest"
	"novelgate/internal/testdb"
)

// natsMirrorFlags are the flags that make serve a mirror with events from NATS.
func natsMirrorFlags(t testing.TB, servers string, origin *Service) []string {
	t.Helper()
	return []string{"--mirror", servers, "--origin", origin.URL, "--origin-key", originKey(t, origin)}
}

// TestMirrorOverNATS: a mirror that reads events of all types from the streams of the relay equals its origin, over
// TLS, from the beginning of the streams and from a bundle, after a restart, the end of each NATS server, and an
// erasure. Its own relay publishes the same messages.
func TestMirrorOverNATS(t *testing.T) {
	t.Parallel()
	testdb.SkipShort(t)
	demandTLS, certificate, key := relaytest.TLS(t)
	cluster, elsewhere := relaytest.New(t, 3, demandTLS), relaytest.New(t, 1)
	_, js := cluster.Connect(nats.RootCAs(certificate), nats.ClientCert(certificate, key))
	origin := Start(t, testdb.New(t), "--relay", cluster.URL(), "--relay-ca", certificate, "--relay-cert", certificate,
		"--relay-key", key)
	title := everyEvent(t, origin)
	bundle := filepath.Join(t.TempDir(), "bundle")
	exportSigned(t, origin, bundle)
	p := origin.NewPartner(t)
	p.Import(t, Key(), Comment(title)).WantPost(t, 201)
	flags := append(natsMirrorFlags(t, cluster.URL(), origin), "--mirror-ca", certificate, "--mirror-cert", certificate,
		"--mirror-key", key)
	again := []string{"--relay", elsewhere.URL(), "--relay-replicas", "1"}
	mirror := Start(t, testdb.New(t), slices.Concat(flags, again)...)
	fromBundle := Start(t, testdb.New(t), append(flags, "--mirror-bundle", bundle)...)
	wantSame := func() {
		t.Helper()
		for _, m := range []*Service{mirror, fromBundle} {
			wantMirrored(t, origin.URL, origin.DatabaseURL, m.URL, m.DatabaseURL)
		}
	}
	wantSame()
	if held := testdb.FindWords(t, mirror.DatabaseURL, plantedMember); len(held) > 0 {
		t.Errorf("what was erased before the mirror began is in %v", held)
	}

	mirror.Stop(t)
	words := Unique("words over NATS")
	planted := Comment(title).With(Fields{"uuid": "who is erased", "username": plantedName, "content": words})
	for range 20 {
		p.Import(t, Key(), planted).WantPost(t, 201)
	}
	mirror = Start(t, mirror.DatabaseURL, slices.Concat(flags, again)...)
	wantSame()
	stream := relay.StreamName(*ledgerStatus(t, origin).Origin)
	leader := -1
	testdb.Eventually(t, "a server leads the stream", func() bool {
		leader = cluster.Leader(t.Context(), js, stream)
		return leader >= 0
	})
	for _, server := range []int{leader, (leader + 1) % 3, (leader + 2) % 3} {
		cluster.Stop(server)
		p.Import(t, Key(), planted).WantPost(t, 201)
		wantSame()
		cluster.Start(server)
		p.Import(t, Key(), planted).WantPost(t, 201)
		wantSame()
	}
	// Another source of the same history.
	fromBundle.Stop(t)
	fromBundle = Start(t, fromBundle.DatabaseURL, mirrorFlags(t, origin, origin.DatabaseURL)...)
	if held := testdb.FindWords(t, mirror.DatabaseURL, words); len(held) == 0 {
		t.Fatal("the search does not find what is planted")
	}
	testdb.Eventually(t, "the origin has erased the author", func() bool {
		return origin.CLI(t, "author", "erase", p.Name, "who is erased", "--reason", "asked").Code == 0
	})
	p.Import(t, Key(), planted.With(Fields{"content": "Later"})).WantPost(t, 201)
	wantSame()
	for _, m := range []*Service{mirror, fromBundle} {
		compact(t, m.DatabaseURL)
		if held := testdb.FindWords(t, m.DatabaseURL, words, plantedMember); len(held) > 0 {
			t.Errorf("what was erased is still in %v", held)
		}
	}
	wantSameStreams(t, js, elsewhere, stream)
	mirror.MustCLI(t, "events", "verify", "--key", flags[5])
}

// wantSameStreams compares both streams of an origin with those of the same names that a mirror has made.
func wantSameStreams(t *testing.T, js jetstream.JetStream, elsewhere *relaytest.Cluster, stream string) {
	t.Helper()
	_, other := elsewhere.Connect()
	for _, name := range []string{stream, stream + "-personal"} {
		want, err := js.Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		var got jetstream.Stream
		last := want.CachedInfo().State.LastSeq
		testdb.Eventually(t, "the mirror has relayed all to "+name, func() bool {
			got, err = other.Stream(t.Context(), name)
			return err == nil && got.CachedInfo().State.LastSeq == last
		})
		for sequence := uint64(1); sequence <= last; sequence++ {
			a, wantErr := want.GetMsg(t.Context(), sequence)
			b, err := got.GetMsg(t.Context(), sequence)
			gone := func(m *jetstream.RawStreamMsg, err error) bool { return err != nil || len(m.Data) == 0 }
			if gone(a, wantErr) && gone(b, err) && strings.HasSuffix(name, "personal") {
				continue // erased before or after it was published
			}
			if err != nil || wantErr != nil {
				t.Fatalf("message %d of %s: %v, %v", sequence, name, wantErr, err)
			}
			if a.Subject != b.Subject || !bytes.Equal(a.Data, b.Data) ||
				a.Header.Get(relay.LeafHeader) != b.Header.Get(relay.LeafHeader) {
				t.Fatalf("message %d of %s is\n%s %s\nand at the mirror\n%s %s", sequence, name, a.Subject, a.Data, b.Subject,
					b.Data)
			}
		}
	}
}

// TestMirrorOverNATSStops: whatever the streams or the origin's address deliver, the mirror applies only what was
// signed. It stops before the first wrong event and names its log index; its readers go on; and once the streams have
// what was signed, it goes on, too.
func TestMirrorOverNATSStops(t *testing.T) {
	t.Parallel()
	testdb.SkipShort(t)
	title := Unique("Streamed")
	origin, main, personal := relayed(t, title)
	_, other, otherPersonal := relayed(t, title)
	name := relay.StreamName(*ledgerStatus(t, origin).Origin)
	const at = 20 // log index of a comment
	discussion := "/novels/" + strings.ReplaceAll(strings.ToLower(title), " ", "-") + "/discussion"

	for what, test := range map[string]struct {
		change func(main, personal []*nats.Msg)
		forge  bool
		at     int
		reason string
	}{
		"tampered message": {
			change: func(main, _ []*nats.Msg) {
				main[at].Data = bytes.Replace(main[at].Data, []byte("writtenAt"), []byte("writtenat"), 1)
			},
			at: at, reason: "not the one that was signed",
		},
		"tampered words": {
			change: func(_, personal []*nats.Msg) {
				personal[at].Data = bytes.Replace(personal[at].Data, []byte("A comment."), []byte("A cogent."), 1)
			},
			at: at, reason: "not the one that was signed",
		},
		"tampered leaf and fingerprint": {
			change: func(main, _ []*nats.Msg) {
				main[at].Header.Set(relay.FingerprintHeader, main[at+1].Header.Get(relay.FingerprintHeader))
				main[at].Header.Set(relay.LeafHeader, main[at+1].Header.Get(relay.LeafHeader))
			},
			at: at, reason: "not the one that was signed",
		},
		"swapped pair": {
			change: func(main, personal []*nats.Msg) {
				main[at], main[at+1] = main[at+1], main[at]
				personal[at], personal[at+1] = personal[at+1], personal[at]
			},
			at: at, reason: "another event is in its place",
		},
		"swapped pair with the log indexes of their places": {
			change: func(main, personal []*nats.Msg) {
				index := func(i int) []byte { return fmt.Appendf(nil, `"logindex":"%d"`, i) }
				main[at].Data = bytes.Replace(main[at].Data, index(at), index(at+1), 1)
				main[at+1].Data = bytes.Replace(main[at+1].Data, index(at+1), index(at), 1)
				main[at], main[at+1] = main[at+1], main[at]
				personal[at], personal[at+1] = personal[at+1], personal[at]
			},
			at: at, reason: "not the one that was signed",
		},
		"another history": {
			change: func(main, personal []*nats.Msg) { copy(main, other); copy(personal, otherPersonal) },
			at:     10, reason: "not the one that was signed",
		},
		"no CloudEvent": {
			change: func(main, _ []*nats.Msg) { main[at].Data = []byte("<html>") }, at: at, reason: "cannot be read",
		},
		"forged checkpoint": {
			change: func(_, _ []*nats.Msg) {}, forge: true, at: 10, reason: "no given key has signed the checkpoint",
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			streams := relaytest.New(t, 1)
			_, js := streams.Connect()
			replace(streams, js, name, main[:10], personal[:10])
			address, forge := forger(t, origin)
			flags := natsMirrorFlags(t, streams.URL(), origin)
			flags[slices.Index(flags, "--origin")+1] = address
			mirror := Start(t, testdb.New(t), flags...)
			testdb.Eventually(t, "the mirror has what the streams have", func() bool {
				return mirrorState(t, mirror).Entries == 10
			})
			wrong, wrongParts := clone(main), clone(personal)
			test.change(wrong, wrongParts)
			if forge(test.forge); !test.forge {
				streams.Publish(js, wrongParts[10:])
				streams.Publish(js, wrong[10:])
			}
			var state mirrorStatus
			testdb.Eventually(t, "the mirror has stopped", func() bool {
				state = mirrorState(t, mirror)
				return state.StoppedAt != nil
			})
			if *state.StoppedAt != int64(test.at) || !strings.Contains(state.Stopped, test.reason) {
				t.Errorf("it has stopped at log index %d, want %d: %s", *state.StoppedAt, test.at, state.Stopped)
			}
			logged := value[int64](t, mirror.DatabaseURL, `SELECT count(*) FROM events`)
			if logged > int64(test.at) || logged != state.Entries {
				t.Errorf("it has %d events and says %d", logged, state.Entries)
			}
			if status, _ := Get(t, mirror.URL+"/novels"); status != http.StatusOK {
				t.Errorf("readers get %d", status)
			}
			forge(false)
			replace(streams, js, name, main, personal)
			wantMirrored(t, origin.URL, origin.DatabaseURL, mirror.URL, mirror.DatabaseURL)
			if status, _ := Get(t, mirror.URL+discussion); status != http.StatusOK {
				t.Errorf("the discussion is %d", status)
			}
		})
	}
	t.Run("withheld words", func(t *testing.T) {
		t.Parallel()
		streams := relaytest.New(t, 1)
		_, js := streams.Connect()
		replace(streams, js, name, main, personal)
		stream, err := js.Stream(t.Context(), name+"-personal")
		if err == nil {
			err = stream.DeleteMsg(t.Context(), at+1)
		}
		if err != nil {
			t.Fatal(err)
		}
		flags := natsMirrorFlags(t, streams.URL(), origin)
		mirror := Start(t, testdb.New(t), flags...)
		testdb.Eventually(t, "the mirror has all events", func() bool {
			return mirrorState(t, mirror).Entries == int64(len(main))
		})
		awaitSealed(t, mirror.DatabaseURL)
		said := mirror.MustCLI(t, "events", "verify", "--key", flags[5]).Stdout
		if !strings.Contains(said, fmt.Sprintf("NO RECORD   1 erased events, the first at log index %d", at)) {
			t.Errorf("the verification says\n%s", said)
		}
	})
}

// relayed starts a service with comments on a title, and returns the messages of its streams.
func relayed(t *testing.T, title string) (origin *Service, main, personal []*nats.Msg) {
	t.Helper()
	cluster := relaytest.New(t, 1)
	_, js := cluster.Connect()
	origin = Start(t, testdb.New(t), "--relay", cluster.URL(), "--relay-replicas", "1")
	p := origin.NewPartner(t)
	for range 30 {
		p.Import(t, Key(), Comment(title)).WantPost(t, 201)
	}
	awaitSealed(t, origin.DatabaseURL)
	size := value[int64](t, origin.DatabaseURL, `SELECT count(*) FROM events`)
	name := relay.StreamName(*ledgerStatus(t, origin).Origin)
	testdb.Eventually(t, "everything is relayed", func() bool {
		found, err := js.Stream(t.Context(), name)
		return err == nil && found.CachedInfo().State.LastSeq == uint64(size)
	})
	return origin, cluster.Copy(js, name), cluster.Copy(js, name+"-personal")
}

// replace replaces both streams of an origin, the personal one first, as the relay publishes.
func replace(cluster *relaytest.Cluster, js jetstream.JetStream, name string, main, personal []*nats.Msg) {
	personalConfig := jetstream.StreamConfig{Name: name + "-personal", Subjects: []string{relay.PersonalPrefix + ">"}}
	cluster.Replace(js, personalConfig, personal)
	cluster.Replace(js, jetstream.StreamConfig{Name: name, Subjects: []string{relay.MainPrefix + ">"}}, main)
}

// clone returns a copy of messages that a test may change.
func clone(list []*nats.Msg) []*nats.Msg {
	copied := make([]*nats.Msg, len(list))
	for i, m := range list {
		header := nats.Header{}
		for name, values := range m.Header {
			header[name] = slices.Clone(values)
		}
		copied[i] = &nats.Msg{Subject: m.Subject, Header: header, Data: bytes.Clone(m.Data)}
	}
	return copied
}

// forger returns another address of a service, and a function that makes it change the size in checkpoints.
func forger(t *testing.T, of *Service) (address string, forge func(bool)) {
	t.Helper()
	var forges atomic.Bool
	target := testdb.Must(url.Parse(of.URL))(t)
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ModifyResponse: func(r *http.Response) error {
			if !forges.Load() || r.Request.URL.Path != "/ledger/checkpoint" {
				return nil
			}
			text, err := io.ReadAll(r.Body)
			if err != nil {
				return err
			}
			lines := strings.SplitN(string(text), "\n", 3)
			lines[1] += "0"
			text = []byte(strings.Join(lines, "\n"))
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
			r.Header.Del("Content-Length")
			return nil
		},
	}
	server := httptest.NewServer(proxy)
	t.Cleanup(server.Close)
	return server.URL, forges.Store
}

// TestHandoverOverNATS: a mirror with events from NATS is promoted. As the new origin it continues the streams of the
// former one, and another mirror follows them with only another --origin.
func TestHandoverOverNATS(t *testing.T) {
	t.Parallel()
	testdb.SkipShort(t)
	cluster := relaytest.New(t, 1)
	relayFlags := []string{"--relay", cluster.URL(), "--relay-replicas", "1"}
	origin := Start(t, testdb.New(t), relayFlags...)
	p, title := origin.NewPartner(t), Unique("Handed over")
	p.Import(t, Key(), Comment(title)).WantPost(t, 201)
	flags := natsMirrorFlags(t, cluster.URL(), origin)
	mirror, second := Start(t, testdb.New(t), flags...), Start(t, testdb.New(t), flags...)
	p.Import(t, Key(), Comment(title)).WantPost(t, 201)
	wantMirrored(t, origin.URL, origin.DatabaseURL, second.URL, second.DatabaseURL)
	file := handOverTo(t, origin, mirror)
	mirror.promote(t, file)
	second.Stop(t)
	origin.Stop(t)
	_, js := cluster.Connect()
	name := relay.StreamName(*ledgerStatus(t, mirror).Origin)
	before := testdb.Must(js.Stream(t.Context(), name))(t)

	files := filesOf(mirror)
	mirror.Stop(t)
	promoted := Start(t, mirror.DatabaseURL, slices.Concat(relayFlags, files)...)
	for range 20 {
		p.at(promoted).Import(t, Key(), Comment(title)).WantPost(t, 201)
	}
	second = Start(t, second.DatabaseURL, natsMirrorFlags(t, cluster.URL(), promoted)...)
	wantMirrored(t, promoted.URL, promoted.DatabaseURL, second.URL, second.DatabaseURL)
	after := testdb.Must(js.Stream(t.Context(), name))(t)
	a, b := before.CachedInfo(), after.CachedInfo()
	if !a.Created.Equal(b.Created) || b.State.LastSeq < a.State.LastSeq+20 {
		t.Errorf("the stream went from %d messages to %d, and was made at %v and %v", a.State.LastSeq, b.State.LastSeq,
			a.Created, b.Created)
	}
}

// TestReplacedByMistakeOverNATS: a mirror was promoted by mistake and has relayed. The service that it replaced goes
// on, and so does its relay once the streams are deleted.
func TestReplacedByMistakeOverNATS(t *testing.T) {
	t.Parallel()
	testdb.SkipShort(t)
	cluster := relaytest.New(t, 1)
	relayFlags := []string{"--relay", cluster.URL(), "--relay-replicas", "1"}
	origin := Start(t, testdb.New(t), relayFlags...)
	p, title := origin.NewPartner(t), Unique("By mistake")
	p.Import(t, Key(), Comment(title)).WantPost(t, 201)
	mirror := Start(t, testdb.New(t), natsMirrorFlags(t, cluster.URL(), origin)...)
	wantMirrored(t, origin.URL, origin.DatabaseURL, mirror.URL, mirror.DatabaseURL)
	mirror.promote(t, "--lost-origin", "--origin-answers")
	files := filesOf(mirror)
	mirror.Stop(t)
	promoted := Start(t, mirror.DatabaseURL, slices.Concat(relayFlags, files)...)
	p.at(promoted).Import(t, Key(), Comment(title)).WantPost(t, 201)
	testdb.Eventually(t, "the origin is replaced", func() bool { return fenced(t, origin.DatabaseURL) })
	testdb.Eventually(t, "the promoted service relays", func() bool {
		return metric(promoted.metrics(t), "novelgate_relay_lag_events") == "0"
	})
	promoted.Stop(t)

	origin.MustCLI(t, append([]string{"handover", "--undo", "--ignore-promotion"}, filesOf(origin)...)...)
	p.at(origin).Import(t, Key(), Comment(title)).WantPost(t, 201)
	testdb.Eventually(t, "the relay of the origin stops", func() bool {
		return metric(origin.metrics(t), "novelgate_relay_refused") == "1"
	})
	_, js := cluster.Connect()
	for name := range js.StreamNames(t.Context()).Name() {
		if err := js.DeleteStream(t.Context(), name); err != nil {
			t.Error(err)
		}
	}
	awaitSigned(t, origin)
	events := value[uint64](t, origin.DatabaseURL, `SELECT count(*) FROM events`)
	testdb.Eventually(t, "the relay of the origin fills a new stream", func() bool {
		stream, err := js.Stream(t.Context(), relay.StreamName(*ledgerStatus(t, origin).Origin))
		return err == nil && stream.CachedInfo().State.LastSeq >= events
	})
}
