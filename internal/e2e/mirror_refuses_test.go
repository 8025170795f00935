package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"novelgate/internal/apikey"
	"novelgate/internal/testdb"
)

// TestMirrorRefusesCommands: commands, and whatever partners and staff ask, are answered with 421 and the address of
// the origin; the command line appends nothing; and without --mirror, or on a database in use, nothing starts.
func TestMirrorRefusesCommands(t *testing.T) {
	t.Parallel()
	origin := Start(t, testdb.New(t))
	p := origin.NewPartner(t)
	ada := origin.NewStaff(t)
	title := Unique("Mirrored")
	p.Upsert(t, Key(), Fields{"novel": title})
	comment := Comment(title)
	p.Import(t, Key(), comment).WantPost(t, 201)
	flags := mirrorFlags(t, origin, origin.DatabaseURL)
	mirror := Start(t, testdb.New(t), flags...)
	wantMirrored(t, origin.URL, origin.DatabaseURL, mirror.URL, mirror.DatabaseURL)
	inSandbox := apikey.NewSandbox("abcd").Reveal()
	requests := []Request{
		p.Request(NovelsPath, Key(), Fields{"novel": title}.JSON(t)),
		p.Request(PostsPath, Key(), Comment(title).JSON(t)),
		{Path: "/api/integrations/me", Bearer: p.APIKey},
		{Path: "/api/integrations/me", Bearer: inSandbox},
		{Path: "/api/admin/novels", Bearer: ada.APIKey},
		{Method: http.MethodPost, Path: "/api/admin/novels", Bearer: ada.APIKey, Key: Key(), Body: []byte(`{}`)},
	}
	for _, route := range Routes(t) {
		r := Request{Method: route.Method, Path: strings.NewReplacer("{", "", "}", "").Replace(route.Path)}
		if !r.forReaders() {
			requests = append(requests, r)
		}
	}
	for _, r := range requests {
		answer := mirror.Send(t, r)
		var problem struct{ Code, Origin string }
		if err := json.Unmarshal(answer.Body, &problem); answer.Status != http.StatusMisdirectedRequest || err != nil ||
			problem.Code != "misdirected" || problem.Origin != origin.URL {
			t.Errorf("%s %s: %d %s", r.Method, r.Path, answer.Status, answer.Body)
		}
	}
	var list struct{ Items []struct{ Novel string } }
	mirror.Send(t, Request{Path: "/api/novels", Bearer: inSandbox}).WantJSON(t, http.StatusOK, &list)
	if len(list.Items) != 1 || list.Items[0].Novel != title {
		t.Errorf("with the key of a sandbox: %+v", list)
	}
	refused := mirror.Refused(t, "integration", "create", "local")
	if !strings.Contains(refused.Stderr, "this database is a mirror") {
		t.Errorf("the command line: %s", refused.Stderr)
	}
	refused = mirror.Refused(t, "author", "erase", p.IntegrationID, fmt.Sprint(comment["uuid"]), "--reason", "r")
	erased := value[int](t, mirror.DatabaseURL, `SELECT count(*) FROM events WHERE personal_digest IS NOT NULL`)
	if !strings.Contains(refused.Stderr, "this database is a mirror") || erased > 0 {
		t.Errorf("the command line erased %d events: %s", erased, refused.Stderr)
	}
	over := []string{"--mirror", "nats://127.0.0.1:1", "--origin", origin.URL, "--origin-key", flags[3]}
	for _, refused := range []struct {
		want  string
		flags []string
	}{
		{"the database is a mirror", []string{"--database-url", mirror.DatabaseURL}},
		{"needs an empty one", append([]string{"--database-url", origin.DatabaseURL}, flags...)},
		{"a mirror does not sign or publish a ledger", append([]string{"--ledger-origin", "another"}, flags...)},
		{"needs --auditor-key", flags[:4]},
		{"is not the API key of an auditor", slices.Concat(
			flags[:4], []string{"--auditor-key", apikey.NewSandbox("abcd").Reveal(), "--database-url", origin.DatabaseURL},
		)},
		{"needs --origin-key", slices.Concat(flags[:2], flags[4:])},
		{"are for --mirror", flags[2:4]},
		{"are for --mirror", over[2:4]},
		{"are for --mirror", []string{"--mirror-ca", flags[3]}},
		{"is for a --mirror with NATS servers", append([]string{"--origin", origin.URL}, flags...)},
		{"are for a --mirror with NATS servers", append([]string{"--mirror-ca", flags[3]}, flags...)},
		{"needs --origin:", slices.Concat(over[:2], over[4:])},
		{"needs --origin-key", over[:4]},
		{"is not an http or https address", slices.Concat(over[:2], []string{"--origin", "nats://here:2"}, over[4:])},
		{"events from NATS need none", slices.Concat(over, flags[4:])},
		{"--mirror-cert and --mirror-key go together", slices.Concat(over, []string{"--mirror-key", flags[3]})},
		{"--mirror must be addresses such as", append([]string{"--mirror", over[1] + "," + origin.URL}, over[2:]...)},
		{"relay to another account", slices.Concat(over, []string{"--relay", over[1]})},
	} {
		out := RunCLI(t, "", append([]string{
			"serve", "--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0", "--allow-unsafe-durability",
		}, refused.flags...)...)
		if out.Code == 0 || !strings.Contains(out.Stderr, refused.want) {
			t.Errorf("serve %v ended with %d: %s", refused.flags, out.Code, out.Stderr)
		}
	}
}

// TestMirrorWithoutDatabase: while its database is away, a mirror does not know whether it was promoted. It answers
// commands with 503, which partners repeat, and not with 421; many commands do not wait for each other.
func TestMirrorWithoutDatabase(t *testing.T) {
	t.Parallel()
	own := startServer(t, nil)
	origin, mirror := startMirroredOn(t, testdb.New(t), own.url())
	p := newPartner(t, origin.DatabaseURL)
	own.crash(t)
	var all sync.WaitGroup
	for range 30 {
		all.Go(func() {
			if a := p.send(t, mirror.URL, PostsPath, Key(), []byte(`{}`), false); !a.unavailable() || a.took > patience/4 {
				t.Errorf("the mirror answers %d %s after %v", a.status, a.body, a.took)
			}
		})
	}
	all.Wait()
	own.start(t)
	testdb.Eventually(t, "the mirror refuses commands as one", func() bool {
		return p.send(t, mirror.URL, PostsPath, Key(), []byte(`{}`), false).status == http.StatusMisdirectedRequest
	})
}

// TestMirrorStopsBeforeATamperedEvent: an operator of the origin changes an event that is signed and not mirrored yet.
// The mirror stops before it, says so, and its readers go on; once the event is as it was, the mirror goes on, too.
func TestMirrorStopsBeforeATamperedEvent(t *testing.T) {
	t.Parallel()
	origin := Start(t, testdb.New(t))
	p := origin.NewPartner(t)
	title := Unique("Tampered")
	p.Import(t, Key(), Comment(title)).WantPost(t, 201)
	mirror := startMirror(t, origin)
	wantMirrored(t, origin.URL, origin.DatabaseURL, mirror.URL, mirror.DatabaseURL)
	flags := mirror.cmd.Args[slices.Index(mirror.cmd.Args, "--mirror"):]
	mirror.Stop(t)
	for range 9 {
		p.Import(t, Key(), Comment(title)).WantPost(t, 201)
	}
	awaitSealed(t, origin.DatabaseURL)
	signed := value[int64](t, origin.DatabaseURL, `SELECT tree_size FROM ledger_state`)
	tamper := func(from, to string) {
		t.Helper()
		execute(t, origin.DatabaseURL, `ALTER TABLE events DISABLE TRIGGER ALL;
			UPDATE events SET personal = replace(personal::text, '`+
			from+`', '`+to+`')::json WHERE (transaction_id, position) = (SELECT transaction_id, position FROM events
			ORDER BY transaction_id DESC, position DESC OFFSET 3 LIMIT 1); ALTER TABLE events ENABLE TRIGGER ALL`)
	}
	tamper("A comment.", "A cogent.")
	mirror = Start(t, mirror.DatabaseURL, flags...)
	at := signed - 4
	var state mirrorStatus
	testdb.Eventually(t, "the mirror has stopped", func() bool {
		state = mirrorState(t, mirror)
		return state.StoppedAt != nil
	})
	if *state.StoppedAt != at || state.Entries != signed-9 ||
		!strings.Contains(state.Stopped, "not the one that was signed") {
		t.Errorf("it has stopped at log index %d, want %d: %+v", *state.StoppedAt, at, state)
	}
	testdb.Eventually(t, "the log says so", func() bool {
		return strings.Contains(mirror.stderr.String(), fmt.Sprintf("logIndex=%d", at))
	})
	if !strings.Contains(mirror.metrics(t), "novelgate_mirror_stopped 1\n") {
		t.Error("/metrics does not say that it has stopped")
	}
	discussion := "/novels/" + strings.ReplaceAll(strings.ToLower(title), " ", "-") + "/discussion"
	if status, shown := Get(t, mirror.URL+discussion); status != http.StatusOK || strings.Contains(shown, "A cogent.") {
		t.Errorf("readers get %d, or what was not signed", status)
	}
	tamper("A cogent.", "A comment.")
	wantMirrored(t, origin.URL, origin.DatabaseURL, mirror.URL, mirror.DatabaseURL)
}
