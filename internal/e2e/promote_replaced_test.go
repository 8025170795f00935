package e2e_test

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"novelgate/events/relay/relaytest"
	"novelgate/internal/testdb"
)

// TestStoppedMirrorPromoted: a mirror that has stopped in front of a tampered event is promoted only when the operator
// accepts that.
func TestStoppedMirrorPromoted(t *testing.T) {
	t.Parallel()
	testdb.SkipShort(t)
	origin, mirror := startMirrored(t)
	p := newPartner(t, origin.DatabaseURL).at(origin)
	title := Unique("Tampered")
	p.Import(t, Key(), Comment(title)).WantPost(t, 201)
	wantMirrored(t, origin.URL, origin.DatabaseURL, mirror.URL, mirror.DatabaseURL)
	had := value[int64](t, mirror.DatabaseURL, `SELECT tree_size FROM mirror`)
	args := mirror.cmd.Args[slices.Index(mirror.cmd.Args, "--data-dir"):]
	mirror.Stop(t)
	p.Import(t, Key(), Comment(title)).WantPost(t, 201)
	awaitSealed(t, origin.DatabaseURL)
	execute(t, origin.DatabaseURL, `ALTER TABLE events DISABLE TRIGGER ALL;
		UPDATE events SET personal = replace(personal::text, 'A comment.', 'A cogent.')::json
		WHERE (transaction_id, position) = (SELECT transaction_id, position FROM events
			ORDER BY transaction_id DESC, position DESC LIMIT 1)`)
	mirror = Start(t, mirror.DatabaseURL, args...)
	testdb.Eventually(t, "the mirror has stopped", func() bool { return mirrorState(t, mirror).StoppedAt != nil })

	promote := slices.Concat([]string{"promote", "--lost-origin", "--json"}, waiting, filesOf(mirror))
	refused := mirror.Refused(t, promote...)
	want := fmt.Sprintf("the mirror has stopped at log index %d: the event is not the one that was signed", had)
	if !strings.Contains(refused.Stderr, want) {
		t.Errorf("it says %q, want %q", refused.Stderr, want)
	}
	var promotion struct{ Entries, KnownEntries int64 }
	mirror.runJSON(t, &promotion, append(promote, "--stopped")...)
	if promotion.Entries != had || promotion.KnownEntries != had+1 {
		t.Errorf("promoted with %+v, want %d entries, and one more known", promotion, had)
	}
	p.at(mirror).Import(t, Key(), Comment(title)).WantPost(t, 201)
	wantNoMirror(t, mirror)
}

// TestFencedThisMoment: the first command after a fence is answered with the address of the successor, and the first
// one after its end is accepted.
func TestFencedThisMoment(t *testing.T) {
	t.Parallel()
	origin := Start(t, testdb.New(t))
	p, ada := origin.NewPartner(t), origin.NewStaff(t)
	title, next := Unique("Fenced"), "https://next.example"
	for range 5 {
		execute(t, origin.DatabaseURL, `INSERT INTO handover (promotion_id, successor_url, replaced, fenced_at)
			VALUES (gen_random_uuid(), '`+next+`', false, now());
			ALTER TABLE events ENABLE ALWAYS TRIGGER handed_over`)
		wantHandedOver(t, p.Import(t, Key(), Comment(title)), next)
		execute(t, origin.DatabaseURL, `DELETE FROM handover; ALTER TABLE events DISABLE TRIGGER handed_over`)
		p.Import(t, Key(), Comment(title)).WantPost(t, 201)
	}
	execute(t, origin.DatabaseURL, `INSERT INTO handover (promotion_id, successor_url, replaced, fenced_at)
		VALUES (gen_random_uuid(), '`+next+`', false, now());
		ALTER TABLE events ENABLE ALWAYS TRIGGER handed_over`)
	wantHandedOver(t, origin.Send(t, Request{
		Method: http.MethodPost, Path: "/api/admin/integrations", Bearer: ada.APIKey, Key: Key(),
		ContentType: "application/json", Body: Fields{"name": Unique("Late")}.JSON(t),
	}), next)
}

// wantNoMirror wants a promoted service to show nothing of the mirror that it was.
func wantNoMirror(t testing.TB, s *Service) {
	t.Helper()
	testdb.Eventually(t, "the metrics of the mirror are gone", func() bool {
		metrics := s.metrics(t)
		return !strings.Contains(metrics, "novelgate_mirror_") && metric(metrics, "novelgate_appends") == "1"
	})
	if _, ready := Get(t, s.OpsURL+"/readyz"); strings.Contains(ready, `"mirror"`) {
		t.Errorf("/readyz: %s", ready)
	}
}

// TestReplacedServices: an old origin that was restored, or was away while its mirror was promoted, finds the
// promotion in each place where it can, and refuses commands.
func TestReplacedServices(t *testing.T) {
	t.Parallel()
	nats := relaytest.New(t, 1)
	natsFlags := []string{"--relay", nats.URL(), "--relay-replicas", "1"}
	origin, mirror := startMirrored(t)
	p := newPartner(t, origin.DatabaseURL)
	title := Unique("Replaced")
	p.at(origin).Import(t, Key(), Comment(title)).WantPost(t, 201)
	wantMirrored(t, origin.URL, origin.DatabaseURL, mirror.URL, mirror.DatabaseURL)
	file := handOverTo(t, origin, mirror)
	first := mirror.URL
	mirror.promote(t, file)
	p.at(mirror).Import(t, Key(), Comment(title)).WantPost(t, 201)
	// The promoted mirror relays from now on.
	args := mirror.cmd.Args[slices.Index(mirror.cmd.Args, "--data-dir"):]
	mirror.Stop(t)
	mirror = Start(t, mirror.DatabaseURL, append(slices.Clone(args), natsFlags...)...)
	testdb.Eventually(t, "the relay has marked its stream", func() bool {
		_, js := nats.Connect()
		names := js.ListStreams(t.Context())
		for stream := range names.Info() {
			if stream.Config.Metadata["novelgate-promoted-url"] == publicURL {
				return true
			}
		}
		return false
	})
	origin.Stop(t)
	for place, c := range map[string]struct {
		flags     []string
		successor string
	}{
		"memory":    {filesOf(origin), first},
		"successor": {[]string{"--successor", silent(t), "--successor", silent(t), "--successor", mirror.URL}, mirror.URL},
		"nats":      {natsFlags, publicURL},
	} {
		// As restored from a backup of before the handover.
		execute(t, origin.DatabaseURL, `DELETE FROM handover; ALTER TABLE events DISABLE TRIGGER handed_over`)
		restored := Start(t, origin.DatabaseURL, append(c.flags, "--public-url", publicURL)...)
		wantHandedOver(t, p.at(restored).Import(t, Key(), Comment(title)), c.successor)
		if !fenced(t, origin.DatabaseURL) {
			t.Errorf("%s: the restored database is not fenced", place)
		}
		restored.Stop(t)
	}
}

// silent returns the URL of a server that accepts connections and never answers.
func silent(t *testing.T) (url string) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return "http://" + listener.Addr().String()
}

// TestReplacedWhileRunning: an origin that runs while its mirror is promoted finds out by itself, and refuses commands
// also while a VACUUM delays the fence. If the promotion was a mistake, the origin goes on once the mirror is off, and
// does not give way when the mirror returns.
func TestReplacedWhileRunning(t *testing.T) {
	t.Parallel()
	testdb.SkipShort(t)
	// Addresses that nothing else takes between a stop and the next start.
	origin := Start(t, testdb.New(t), "--public-url", publicURL, "--listen", freeAddress(t))
	mirror := startMirror(t, origin, "--public-url", publicURL, "--listen", freeAddress(t))
	p := newPartner(t, origin.DatabaseURL)
	title := Unique("Replaced")
	p.at(origin).Import(t, Key(), Comment(title)).WantPost(t, 201)
	wantMirrored(t, origin.URL, origin.DatabaseURL, mirror.URL, mirror.DatabaseURL)
	origin.Stop(t)
	origin = Start(t, origin.DatabaseURL, append(filesOf(origin), "--listen", strings.TrimPrefix(origin.URL, "http://"),
		"--public-url", publicURL, "--successor", mirror.URL)...)
	refused := append([]string{"promote", "--lost-origin"}, filesOf(mirror)...)
	if out := mirror.Refused(t, refused...); !strings.Contains(out.Stderr, "the origin answers") {
		t.Errorf("while the origin answers: %s", out.Stderr)
	}
	release := hold(t, origin.DatabaseURL, vacuums)
	mirror.promote(t, "--lost-origin", "--origin-answers")
	p.at(mirror).Import(t, Key(), Comment(title)).WantPost(t, 201)
	testdb.Eventually(t, "the origin refuses commands", func() bool {
		return strings.Contains(string(p.at(origin).Import(t, Key(), Comment(title)).Body), `"origin"`)
	})
	if fenced(t, origin.DatabaseURL) {
		t.Error("the database is fenced during a VACUUM")
	}
	release()
	testdb.Eventually(t, "the database is fenced", func() bool { return fenced(t, origin.DatabaseURL) })
	wantHandedOver(t, p.at(origin).Import(t, Key(), Comment(title)), mirror.URL)
	if ready := origin.awaitReady(t); !strings.Contains(ready, `"handedOver":{"successor":"`+mirror.URL) {
		t.Errorf("/readyz: %s", ready)
	}
	if appends := metric(origin.metrics(t), "novelgate_appends"); appends != "0" {
		t.Errorf("novelgate_appends is %s", appends)
	}
	undo := append([]string{"handover", "--undo"}, filesOf(origin)...)
	if out := origin.Refused(t, undo...); !strings.Contains(out.Stderr, "--ignore-promotion lifts the fence") {
		t.Errorf("undone: %s", out.Stderr)
	}
	undo = append(undo, "--ignore-promotion")
	if out := origin.Refused(t, undo...); !strings.Contains(out.Stderr, "answers that it was promoted") {
		t.Errorf("undone while the mirror answers: %s", out.Stderr)
	}
	mirror.Stop(t)
	origin.MustCLI(t, undo...)
	p.at(origin).Import(t, Key(), Comment(title)).WantPost(t, 201)
	awaitSigned(t, origin)
	args := origin.cmd.Args[slices.Index(origin.cmd.Args, "--data-dir"):]
	origin.Stop(t)
	Start(t, mirror.DatabaseURL, append(filesOf(mirror), "--public-url", publicURL,
		"--listen", strings.TrimPrefix(mirror.URL, "http://"))...)
	origin = Start(t, origin.DatabaseURL, args...) // which asks the mirror first
	p.at(origin).Import(t, Key(), Comment(title)).WantPost(t, 201)
}

// TestLostTwice: a mirror of a promoted mirror is promoted, too, although its clock is an hour behind. The services
// before refuse commands when they return, and it accepts them although it asks them.
func TestLostTwice(t *testing.T) {
	t.Parallel()
	testdb.SkipShort(t)
	origin, first := startMirrored(t)
	p := newPartner(t, origin.DatabaseURL)
	title := Unique("Twice")
	p.at(origin).Import(t, Key(), Comment(title)).WantPost(t, 201)
	wantMirrored(t, origin.URL, origin.DatabaseURL, first.URL, first.DatabaseURL)
	origin.kill()
	first.promote(t, "--lost-origin")
	execute(t, first.DatabaseURL, `ALTER TABLE promotions DISABLE TRIGGER USER;
		UPDATE promotions SET promoted_at = promoted_at + interval '1 hour'`)
	p.at(first).Import(t, Key(), Comment(title)).WantPost(t, 201)
	awaitSealedAs(t, first, originsOf(t, first).Promotions[0].NextOrigin)
	second := startMirror(t, first)
	wantMirrored(t, first.URL, first.DatabaseURL, second.URL, second.DatabaseURL)
	testdb.Eventually(t, "the mirror has the promotion of its origin", func() bool {
		return len(originsOf(t, second).Promotions) == 1
	})
	first.kill()
	second.promote(t, "--lost-origin")
	p.at(second).Import(t, Key(), Comment(title)).WantPost(t, 201)
	promotions := originsOf(t, second).Promotions
	if len(promotions) != 2 || promotions[1].NextOrigin != originsOf(t, second).Origins[1].Origin {
		t.Fatalf("the promotions are %+v", promotions)
	}
	for _, lost := range []*Service{origin, first} {
		returned := Start(t, lost.DatabaseURL, append(filesOf(lost), "--public-url", publicURL, "--successor", second.URL)...)
		wantHandedOver(t, p.at(returned).Import(t, Key(), Comment(title)), second.URL)
		asking := Start(t, second.DatabaseURL, append(filesOf(second), "--successor", returned.URL)...)
		p.at(asking).Import(t, Key(), Comment(title)).WantPost(t, 201)
		asking.Stop(t)
	}
}
