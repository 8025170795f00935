package e2e_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"novelgate/events/ledger"
	"novelgate/events/ledger/ledgertest"
	"novelgate/internal/testdb"
)

// ledgerStatus asks the command line.
func ledgerStatus(t *testing.T, s *Service) (status ledger.Status) {
	t.Helper()
	s.runJSON(t, &status, "ledger", "status")
	return status
}

// register appends events and waits until they are signed.
func (s *Service) register(t *testing.T) {
	t.Helper()
	s.MustCLI(t, "integration", "create", Unique("integration"))
	awaitSigned(t, s.DatabaseURL)
}

// TestLedgerWitnesses: the service signs with the operator's name and key, two of three witnesses cosign the published
// checkpoint, and events verify demands the quorum of a policy. Package ledger tests proofs and tiles, package audit
// policies.
func TestLedgerWitnesses(t *testing.T) {
	t.Parallel()
	const origin = "ledger.example/witnessed"
	var flags []string
	var witnesses []*ledgertest.Witness
	policy := ""
	for _, name := range []string{"one", "two", "three"} {
		w := ledgertest.NewWitness(t, name, "ledger.example/another")
		witnesses = append(witnesses, w)
		flags = append(flags, "--ledger-witness", w.URL.String(), "--ledger-witness-key", w.VerifierKey)
		policy += "witness " + name + " " + w.VerifierKey + "\n"
	}
	s := Start(t, testdb.New(t), append(flags, "--ledger-origin", origin, "--ledger-quorum", "2")...)
	s.register(t)
	status := ledgerStatus(t, s)
	if status.Error != nil || *status.Origin != origin || len(status.VerifierKeys) != 1 {
		t.Fatalf("status: %+v", status)
	}
	key := status.VerifierKeys[0]
	for _, w := range witnesses[:2] {
		w.Trust(t, origin, key)
	}
	s.register(t)
	var text string
	testdb.Eventually(t, "two witnesses have cosigned", func() bool {
		_, text = Get(t, s.URL+"/ledger/checkpoint")
		_, proof := Get(t, s.URL+"/ledger/proof?logIndex=0") // not before the witnesses have the newest checkpoint
		return strings.Contains(text, "— one ") && strings.Contains(text, "— two ") && strings.Contains(proof, "— two ")
	})
	verifier := testdb.Must(note.NewVerifier(key))(t)
	_, err := note.Open([]byte(text), note.VerifierList(verifier))
	if err != nil || !strings.HasPrefix(text, origin+"\n") {
		t.Errorf("checkpoint: %v\n%s", err, text)
	}
	if _, keys := Get(t, s.URL+"/ledger/key"); keys != key+"\n" {
		t.Errorf("keys: %s", keys)
	}
	if status, _ := Get(t, s.URL+"/ledger/tile/entries/000.p/2"); status != 200 {
		t.Errorf("entries: %d", status)
	}
	size := fmt.Sprintf(`novelgate_ledger_witness_size_entries{target="%s"} %d`, witnesses[0].URL,
		witnesses[0].Tree(origin).N)
	failures := fmt.Sprintf(`novelgate_ledger_witness_failures_total{target="%s"} `, witnesses[2].URL)
	testdb.Eventually(t, "the metrics say so, and that the third one fails", func() bool {
		metrics := s.metrics(t)
		return strings.Contains(metrics, size) && strings.Contains(metrics, failures) &&
			!strings.Contains(metrics, failures+"0")
	})
	file := filepath.Join(t.TempDir(), "policy")
	for quorum, want := range map[string]struct {
		code int
		says string
	}{
		"group g 2 one two three\nquorum g\n": {0, witnesses[1].VerifierKey},
		"quorum three\n":                      {1, "quorum"},
		"quorum four\n":                       {1, "line 5"},
	} {
		if err := os.WriteFile(file, []byte("log "+key+"\n"+policy+quorum), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"--url", s.URL}, {"--no-projections"}} {
			out := s.CLI(t, append([]string{"events", "verify", "--policy", file}, args...)...)
			if out.Code != want.code || !strings.Contains(out.Stdout+out.Stderr, want.says) {
				t.Errorf("%v, %q: ended with %d\n%s%s", args, quorum, out.Code, out.Stdout, out.Stderr)
			}
		}
	}
	for _, wrong := range [][]string{
		append([]string{"--ledger-witness", "ftp://example.com"}, flags[2:4]...), flags[:2], append(flags[:3:3], key),
		append([]string{"--ledger-quorum", "4"}, flags...), append(flags, flags[:4]...),
	} {
		s.Refused(t, append([]string{"serve"}, wrong...)...)
	}
}

// TestSignerDirectories: of replicas, those sign that share the signer directory. After its loss only a new origin is
// signed. A new key joins the old one. Package ledger tests copies of a directory and who signs what.
func TestSignerDirectories(t *testing.T) {
	t.Parallel()
	database := testdb.New(t)
	directory := filepath.Join(t.TempDir(), "signer")
	sharing := []string{"--ledger-signer", directory}
	signs := func(s *Service, want string) {
		t.Helper()
		testdb.Eventually(t, "novelgate_ledger_signer is "+want, func() bool {
			return metric(s.metrics(t), "novelgate_ledger_signer") == want
		})
	}
	first, second, third := Start(t, database, sharing...), Start(t, database, sharing...), Start(t, database)
	signs(first, "1")
	signs(second, "1")
	signs(third, "0")
	if said := third.said(); !strings.Contains(said, "does not sign") || !strings.Contains(said, "start a new origin") {
		t.Errorf("the replica without the directory says:\n%s", said)
	}
	third.register(t)
	first.Stop(t)
	third.register(t)
	out := second.MustCLI(t, append([]string{"ledger", "new-key"}, sharing...)...)
	if !strings.HasPrefix(out.Stdout, *ledgerStatus(t, second).Origin+"+") {
		t.Errorf("new-key says %s", out.Stdout)
	}
	second.Stop(t)
	second = Start(t, database, sharing...)
	third.register(t)
	if keys := ledgerStatus(t, third).VerifierKeys; len(keys) != 2 {
		t.Errorf("keys: %v", keys)
	}
	second.Stop(t)

	if err := os.RemoveAll(directory); err != nil {
		t.Fatal(err)
	}
	lost := Start(t, database, sharing...)
	signs(lost, "0")
	lost.Stop(t)
	if _, err := os.Stat(directory); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("another directory was made: %v", err)
	}
	next := Start(t, database, append(sharing, "--ledger-origin", "ledger.example/next")...)
	signs(next, "1")
	testdb.Eventually(t, "the new origin is signed", func() bool {
		_, text := Get(t, third.URL+"/ledger/checkpoint")
		return strings.HasPrefix(text, "ledger.example/next\n")
	})
}

// TestExportAndVerify: an exported bundle, the database and the running service verify; a changed byte or table does
// not. Package audit tests every kind of fault.
func TestExportAndVerify(t *testing.T) {
	t.Parallel()
	testdb.SkipShort(t)
	s := Start(t, testdb.New(t))
	changed := value[int](t, s.DatabaseURL, `SELECT count(*) FROM events`) // the log index of the next event
	s.MustCLI(t, "integration", "create", "Acme", "--capability", "posts")
	awaitSigned(t, s.DatabaseURL)
	execute(t, s.DatabaseURL, `UPDATE ledger_state SET signing_error = 'left by a replica that started'`)
	if out := s.MustCLI(t, "ledger", "status"); strings.Contains(out.Stdout, "not signed") {
		t.Errorf("while a replica signs:\n%s", out.Stdout)
	}
	dir := t.TempDir()
	bundle, noKeys := filepath.Join(dir, "bundle"), filepath.Join(dir, "keys")
	key := ledgerStatus(t, s).VerifierKeys[0]
	run := func(code int, args []string, says ...string) {
		t.Helper()
		out := s.CLI(t, append([]string{"events"}, args...)...)
		for _, want := range append(says, "") {
			if out.Code != code || !strings.Contains(out.Stdout+out.Stderr, want) {
				t.Errorf("%v ended with %d, want %d and %q: %s %s", args, out.Code, code, want, out.Stdout, out.Stderr)
			}
		}
	}
	verify := func(code int, args []string, says ...string) {
		t.Helper()
		run(code, append([]string{"verify", "--key", key}, args...), says...)
	}
	run(0, []string{"export", bundle}, "events from log index 0")
	const forget, verified = `UPDATE ledger_state SET verified_at = 'epoch'`, `SELECT verified_at > 'epoch' FROM ledger_state`
	for _, c := range []struct {
		args     []string
		recorded bool // in the database, because it was verified from the first event on
	}{
		{[]string{bundle}, false},
		{[]string{"--url", s.URL}, false},
		{nil, true},
		{[]string{"--against", bundle}, true},
	} {
		execute(t, s.DatabaseURL, forget)
		verify(0, c.args, "everything agrees")
		if value[bool](t, s.DatabaseURL, verified) != c.recorded {
			t.Errorf("after %v it is recorded: %t, want %t", c.args, !c.recorded, c.recorded)
		}
	}
	execute(t, s.DatabaseURL, forget)
	run(0, []string{"verify", bundle}, "own word")
	run(0, []string{"access-log"}, "novelgate events export", "novelgate events verify", `"projections":"true"`)
	if err := os.WriteFile(noKeys, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, wrong := range [][]string{{"--url", s.URL}, {"--key", "no key"}, {"--key", noKeys}} {
		s.Refused(t, append([]string{"events", "verify", bundle}, wrong...)...)
	}
	files, err := filepath.Glob(filepath.Join(bundle, "events", "000.p", "*.ndjson"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files of events: %v, %v", files, err)
	}
	text := strings.Replace(string(testdb.Must(os.ReadFile(files[0]))(t)), "Acme", "Adme", 1)
	if err := os.WriteFile(files[0], []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	run(1, []string{"verify", bundle, "--json"}, `"part": "data"`,
		fmt.Sprintf("does not verify: data at log index %d", changed))

	execute(t, s.DatabaseURL, `UPDATE integrations SET review = true, posts_per_minute = 1000000`)
	verify(1, nil, "the history agrees, but the tables DO NOT AGREE with it",
		"projection integrations: table integrations: in the row with integration_id ",
		"the events lead to other values of posts_per_minute, review", "titles up to")
	verify(1, []string{"--json"}, `"part": "projection integrations"`, `"kind": "changed"`)
	if value[bool](t, s.DatabaseURL, verified) {
		t.Error("a verification that failed is recorded as a success")
	}
	verify(0, []string{"--json", "--no-projections"}, `"projections": []`)
}

// TestReportsOfVerify: the verifying user says where verification begins, not the bundle. The report shows what was not
// verified, and data that was erased without a recorded erasure, which is not a fault.
func TestReportsOfVerify(t *testing.T) {
	t.Parallel()
	testdb.SkipShort(t)
	l := ledgertest.New(t)
	l.Append(4100)
	l.Exec(`ALTER TABLE events DISABLE TRIGGER USER`)
	l.Exec(`UPDATE events SET personal = NULL, salt = NULL, personal_digest = personal_digest(salt, personal)
		WHERE log_index IN (11, 12) AND personal IS NOT NULL`)
	l.Exec(`ALTER TABLE events ENABLE TRIGGER USER`)
	dir := t.TempDir()
	older, newer := filepath.Join(dir, "older"), filepath.Join(dir, "newer")
	MustCLI(t, l.URL, "events", "export", older)
	l.Append(100)
	for _, c := range []struct {
		args string
		code int
		says []string
	}{
		{"export " + newer + " --since " + older, 0, []string{"104 events from log index 4096 on"}},
		{"verify --no-projections", 0, []string{"WITHOUT A RECORD", "2 erased events, the first at log index 11,"}},
		{"verify " + older + " " + newer, 0, []string{"everything agrees, but events are erased WITHOUT A RECORD"}},
		{"verify " + newer, 1, []string{
			"begins elsewhere: with log index 4096", "from log index 0 on", "bundles in front of it", "--first-log-index 4096",
		}},
		{"verify " + newer + " --first-log-index 4096", 0, []string{
			"everything agrees from log index 4096 on", "4096 entries in front of log index 4096",
		}},
		{"verify " + newer + " --first-log-index 4096 --json", 0, []string{`"unverified": 4096`}},
	} {
		out := RunCLI(t, l.URL, append([]string{"events"}, strings.Fields(c.args)...)...)
		for _, want := range c.says {
			if out.Code != c.code || !strings.Contains(out.Stdout+out.Stderr, want) {
				t.Errorf("events %s ended with %d, want %d and %q:\n%s%s", c.args, out.Code, c.code, want, out.Stdout, out.Stderr)
			}
		}
	}
}

// TestGuideForAuditors runs the commands of "Check in ten minutes", which print the lines that the page shows.
func TestGuideForAuditors(t *testing.T) {
	t.Parallel()
	s := Start(t, testdb.New(t))
	var ada, auditor Person // by name, because the page has them
	s.runJSON(t, &ada, "staff", "create", "Ada")
	s.runJSON(t, &auditor, "auditor", "create", "Eve")
	through(t, s.URL, ada.APIKey, "novel", "publish", "Moby Dick", "--reason", "a classic")
	through(t, s.URL, ada.APIKey, "novel", "reject", "Moby Duck", "--reason", "a copy")
	awaitSigned(t, s.DatabaseURL)
	dir := t.TempDir()
	testdb.NoError(t, os.WriteFile(filepath.Join(dir, "ledger.pub"), []byte(ledgerStatus(t, s).VerifierKeys[0]), 0o600))
	guide := readDocument(t, "auditors.md")
	blocks := regexp.MustCompile("(?s)```sh\n(.*?)```.*?```\n(.*?)```").FindStringSubmatch(guide)
	if blocks == nil {
		t.Fatal("the page has no commands")
	}
	command := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", blocks[1])
	command.Env = append(os.Environ(), "NOVELGATE_URL="+s.URL, "NOVELGATE_KEY="+auditor.APIKey,
		"PATH="+filepath.Dir(Binary(t))+string(filepath.ListSeparator)+os.Getenv("PATH"))
	command.Dir = dir
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	mask := regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}|\d[\d:.Z-]*|  +`)
	printed := strings.Split(mask.ReplaceAllString(string(out), "…"), "\n")
	for line := range strings.Lines(blocks[2]) {
		if want := mask.ReplaceAllString(strings.TrimSuffix(line, "\n"), "…"); !slices.Contains(printed, want) {
			t.Errorf("the page has %q, and the commands do not print it:\n%s", line, out)
		}
	}
}
