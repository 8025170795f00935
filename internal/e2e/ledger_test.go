package e2e_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/transparency-dev/formats/proof"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"novelgate/events/ledger"
	"novelgate/events/ledger/ledgertest"
	"novelgate/internal/testdb"
)

// ledgerStatus asks the command line.
func ledgerStatus(t *testing.T, s *Service) ledger.Status {
	t.Helper()
	out := s.CLI(t, "ledger", "status", "--json")
	var status ledger.Status
	if err := json.Unmarshal([]byte(out.Stdout), &status); out.Code != 0 || err != nil {
		t.Fatalf("ledger status ended with %d: %v\n%s", out.Code, err, out.Stderr)
	}
	return status
}

// TestLedger signs appended events with the operator's name and key, and publishes the checkpoint.
func TestLedger(t *testing.T) {
	t.Parallel()
	s := Start(t, testdb.New(t), "--ledger-origin", "ledger.example/novels")
	for _, name := range []string{"one", "two", "three"} {
		s.MustCLI(t, "integration", "create", name)
	}
	awaitSealed(t, s.DatabaseURL)
	status := ledgerStatus(t, s)
	if status.Error != nil || *status.Origin != "ledger.example/novels" || len(status.VerifierKeys) != 1 {
		t.Fatalf("status: %+v", status)
	}
	verifier := testdb.Must(note.NewVerifier(status.VerifierKeys[0]))(t)
	text := s.Send(t, Request{Path: "/ledger/checkpoint"}).Body
	if _, err := note.Open(text, note.VerifierList(verifier)); err != nil ||
		!strings.HasPrefix(string(text), "ledger.example/novels\n") {
		t.Errorf("checkpoint: %v\n%s", err, text)
	}
	if keys := s.Send(t, Request{Path: "/ledger/key"}).Body; string(keys) != status.VerifierKeys[0]+"\n" {
		t.Errorf("keys: %s", keys)
	}
	var p proof.TLogProof
	if err := p.Unmarshal(s.Send(t, Request{Path: "/ledger/proof?logIndex=1"}).Body); err != nil {
		t.Fatal(err)
	}
	code, bundle := Get(t, s.URL+"/ledger/tile/entries/000.p/2")
	if code != http.StatusOK {
		t.Fatalf("entries: %d", code)
	}
	entry := []byte(bundle)[2+int(bundle[0])<<8+int(bundle[1])+2:]
	var hashes tlog.RecordProof
	for _, hash := range p.Hashes {
		hashes = append(hashes, hash)
	}
	root := testdb.Must(tlog.ParseHash(status.Root))(t)
	if err := tlog.CheckRecord(hashes, status.Size, root, 1, tlog.RecordHash(entry)); err != nil {
		t.Error(err)
	}
	s.Send(t, Request{Path: "/ledger/proof?logIndex=1000000"}).WantProblem(t,
		http.StatusNotFound, "not_found")
	for query, field := range map[string]string{
		"": "logIndex", "logIndex=first": "logIndex", "logIndex=-1": "logIndex", "logIndex=0&logIndex=1": "logIndex",
		"logIndex=0&treeSize=1": "treeSize", "%zz": "query",
	} {
		s.Send(t, Request{Path: "/ledger/proof?" + query}).WantInvalid(t, field)
	}
	code, metrics := Get(t, s.OpsURL+"/metrics")
	if code != http.StatusOK || !strings.Contains(metrics, "novelgate_ledger_signing_refused 0") {
		t.Errorf("/metrics: %d", code)
	}
}

// TestLedgerWitnesses: two of three witnesses cosign the served checkpoint, and events verify demands the quorum of a
// policy.
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
	awaitSealed(t, s.DatabaseURL)
	key := ledgerStatus(t, s).VerifierKeys[0]
	for _, w := range witnesses[:2] {
		w.Trust(t, origin, key)
	}
	s.MustCLI(t, "integration", "create", "an integration")
	awaitSealed(t, s.DatabaseURL)
	var text string
	testdb.Eventually(t, "two witnesses have cosigned", func() bool {
		_, text = Get(t, s.URL+"/ledger/checkpoint")
		return strings.Contains(text, "— one ") && strings.Contains(text, "— two ")
	})
	testdb.Eventually(t, "the proof is cosigned", func() bool { // not before the witnesses have the newest checkpoint
		_, proof := Get(t, s.URL+"/ledger/proof?logIndex=0")
		return strings.Contains(proof, "— two ")
	})
	size := fmt.Sprintf(`novelgate_ledger_witness_size_entries{target="%s"} %d`, witnesses[0].URL,
		witnesses[0].Tree(origin).N)
	failures := fmt.Sprintf(`novelgate_ledger_witness_failures_total{target="%s"} `, witnesses[2].URL)
	testdb.Eventually(t, "the metrics say so, and that the third one fails", func() bool {
		_, metrics := Get(t, s.OpsURL+"/metrics")
		return strings.Contains(metrics, size) && strings.Contains(metrics, failures) &&
			!strings.Contains(metrics, failures+"0")
	})
	file := filepath.Join(t.TempDir(), "policy")
	verify := func(quorum string, args ...string) Output {
		t.Helper()
		if err := os.WriteFile(file, []byte("log "+key+"\n"+policy+quorum), 0o600); err != nil {
			t.Fatal(err)
		}
		return s.CLI(t, append([]string{"events", "verify", "--policy", file}, args...)...)
	}
	for _, args := range [][]string{{"--url", s.URL}, {"--no-projections"}} {
		out := verify("group g 2 one two three\nquorum g\n", args...)
		if out.Code != 0 || !strings.Contains(out.Stdout, witnesses[1].VerifierKey) {
			t.Errorf("%v: two of three ended with %d\n%s%s", args, out.Code, out.Stdout, out.Stderr)
		}
		if out := verify("quorum three\n", args...); out.Code != 1 || !strings.Contains(out.Stderr, "quorum") {
			t.Errorf("%v: the third one ended with %d\n%s%s", args, out.Code, out.Stdout, out.Stderr)
		}
	}
	if out := verify("quorum four\n", "--url", s.URL); out.Code == 0 || !strings.Contains(out.Stderr, "line 5") {
		t.Errorf("an unknown witness ended with %d: %s", out.Code, out.Stderr)
	}
	s.Refused(t, append([]string{"serve", "--ledger-witness", "ftp://example.com"}, flags[2:4]...)...)
	s.Refused(t, "serve", "--ledger-witness", witnesses[0].URL.String())
	s.Refused(t, "serve", "--ledger-witness", witnesses[0].URL.String(), "--ledger-witness-key", key)
	s.Refused(t, append([]string{"serve", "--ledger-quorum", "4"}, flags...)...)
	s.Refused(t, append([]string{"serve"}, append(flags, flags[:4]...)...)...)
}

// TestSignerDirectories: replicas that share the signer directory sign in turns; one without it does not sign, and one
// with a copy of it does not once the original has signed more. After its loss only a new origin is signed. A new key
// joins the old one.
func TestSignerDirectories(t *testing.T) {
	t.Parallel()
	database := testdb.New(t)
	directory := filepath.Join(t.TempDir(), "signer")
	sharing := []string{"--ledger-signer", directory}
	signs := func(s *Service, want string) {
		t.Helper()
		testdb.Eventually(t, "novelgate_ledger_signer is "+want, func() bool {
			return strings.Contains(s.metrics(t), "\nnovelgate_ledger_signer "+want+"\n")
		})
	}
	first, second, third := Start(t, database, sharing...), Start(t, database, sharing...), Start(t, database)
	signs(first, "1")
	signs(second, "1")
	signs(third, "0")
	if said := third.said(); !strings.Contains(said, "does not sign") || !strings.Contains(said, "start a new origin") {
		t.Errorf("the replica without the directory says:\n%s", said)
	}
	signed := func(s *Service) (size int64) {
		t.Helper()
		s.MustCLI(t, "integration", "create", Unique("integration"))
		total := value[int64](t, database, `SELECT count(*) FROM events`)
		testdb.Eventually(t, fmt.Sprint(total, " events are signed"), func() bool {
			status := ledgerStatus(t, s)
			return status.CheckpointSize != nil && *status.CheckpointSize >= total
		})
		return total
	}
	signed(third)
	first.Stop(t)
	signed(third)

	copied := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(copied, os.DirFS(directory)); err != nil {
		t.Fatal(err)
	}
	signed(third)
	withCopy := Start(t, database, "--ledger-signer", copied)
	testdb.Eventually(t, "the copy is refused", func() bool {
		return strings.Contains(withCopy.metrics(t), "\nnovelgate_ledger_signing_refused 1\n") &&
			strings.Contains(withCopy.said(), "it is a copy")
	})
	signs(withCopy, "0")
	withCopy.Stop(t)

	out := second.CLI(t, append([]string{"ledger", "new-key"}, sharing...)...)
	origin := *ledgerStatus(t, second).Origin
	if out.Code != 0 || !strings.HasPrefix(out.Stdout, origin+"+") {
		t.Fatalf("new-key ended with %d: %s %s", out.Code, out.Stdout, out.Stderr)
	}
	second.Stop(t)
	second = Start(t, database, sharing...)
	signed(third)
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

// TestExportAndVerify: an exported bundle, the database and the running service verify; a changed byte does not.
func TestExportAndVerify(t *testing.T) {
	t.Parallel()
	testdb.SkipShort(t)
	s := Start(t, testdb.New(t))
	changed := value[int](t, s.DatabaseURL, `SELECT count(*) FROM events`) // the log index of the next event
	s.MustCLI(t, "integration", "create", "Acme", "--capability", "posts")
	awaitSealed(t, s.DatabaseURL)
	dir, key := filepath.Join(t.TempDir(), "bundle"), ledgerStatus(t, s).VerifierKeys[0]
	if out := s.CLI(t, "events", "export", dir); out.Code != 0 ||
		!strings.Contains(out.Stdout, "events from log index 0") {
		t.Fatalf("export ended with %d: %s %s", out.Code, out.Stdout, out.Stderr)
	}
	for _, args := range [][]string{
		{dir},
		{"--url", s.URL},
		{},
		{dir, "--against", filepath.Join(dir, "checkpoint")},
		{"--against", dir},
	} {
		out := s.CLI(t, append([]string{"events", "verify", "--key", key}, args...)...)
		if out.Code != 0 || !strings.Contains(out.Stdout, "everything agrees") || out.Stderr != "" {
			t.Errorf("verify %v ended with %d: %s %s", args, out.Code, out.Stdout, out.Stderr)
		}
	}
	if out := s.CLI(t, "events", "verify", dir); out.Code != 0 || !strings.Contains(out.Stderr, "own word") {
		t.Errorf("verify without a key ended with %d: %s", out.Code, out.Stderr)
	}
	if out := s.CLI(t, "events", "access-log"); !strings.Contains(out.Stdout, "novelgate events export") ||
		!strings.Contains(out.Stdout, "novelgate events verify") || !strings.Contains(out.Stdout, `"projections":"true"`) {
		t.Errorf("the access log does not have it:\n%s", out.Stdout)
	}
	s.Refused(t, "events", "verify", dir, "--url", s.URL)
	s.Refused(t, "events", "verify", dir, "--key", "no key")
	noKeys := filepath.Join(t.TempDir(), "keys") // without a key to trust
	if err := os.WriteFile(noKeys, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Refused(t, "events", "verify", dir, "--key", noKeys)
	files, err := filepath.Glob(filepath.Join(dir, "events", "000.p", "*.ndjson"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files of events: %v, %v", files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(files[0], []byte(strings.Replace(string(text), "Acme", "Adme", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	out := s.CLI(t, "events", "verify", dir, "--json")
	if out.Code != 1 || !strings.Contains(out.Stdout, `"part": "data"`) ||
		!strings.Contains(out.Stderr, fmt.Sprintf("does not verify: data at log index %d", changed)) {
		t.Errorf("verify of a changed bundle ended with %d: %s %s", out.Code, out.Stdout, out.Stderr)
	}

	// Verification finds a read model that differs from the events.
	verify := func(code int, flags []string, says ...string) {
		t.Helper()
		out := s.CLI(t, append([]string{"events", "verify", "--key", key}, flags...)...)
		for _, want := range says {
			if out.Code != code || !strings.Contains(out.Stdout, want) {
				t.Errorf("verify %v ended with %d, without %q: %s %s", flags, out.Code, want, out.Stdout, out.Stderr)
			}
		}
	}
	execute(t, s.DatabaseURL, `UPDATE integrations SET review = true, posts_per_minute = 1000000`)
	verify(1, nil, "the history agrees, but the tables DO NOT AGREE with it",
		"projection integrations: table integrations: in the row with integration_id ",
		"the events lead to other values of posts_per_minute, review", "titles up to")
	verify(1, []string{"--json"}, `"part": "projection integrations"`, `"kind": "changed"`)
	verify(0, []string{"--json", "--no-projections"}, `"projections": []`)
}

// TestVerifyContinuingBundle: the verifying user says where verification begins, not the bundle. The report shows what
// was not verified.
func TestVerifyContinuingBundle(t *testing.T) {
	t.Parallel()
	testdb.SkipShort(t)
	l := ledgertest.New(t)
	l.Append(5000)
	dir := t.TempDir()
	older, newer := filepath.Join(dir, "older"), filepath.Join(dir, "newer")
	novelgate := func(code int, want []string, args ...string) {
		t.Helper()
		out := RunCLI(t, l.URL, append([]string{"events"}, args...)...)
		if out.Code != code {
			t.Errorf("events %v ended with %d, want %d", args, out.Code, code)
		}
		for _, want := range want {
			if !strings.Contains(out.Stdout+out.Stderr, want) {
				t.Errorf("events %v does not say %q:\n%s%s", args, want, out.Stdout, out.Stderr)
			}
		}
	}
	novelgate(0, nil, "export", older)
	l.Append(100)
	novelgate(0, []string{"1004 events from log index 4096 on"}, "export", newer, "--since", older)
	novelgate(0, []string{"everything agrees\n"}, "verify", older, newer)
	novelgate(1, []string{
		"begins elsewhere: with log index 4096", "from log index 0 on", "bundles in front of it", "--first-log-index 4096",
	}, "verify", newer)
	novelgate(0, []string{"everything agrees from log index 4096 on", "4096 entries in front of log index 4096"}, "verify",
		newer, "--first-log-index", "4096")
	novelgate(0, []string{`"unverified": 4096`}, "verify", newer, "--first-log-index", "4096", "--json")
}

// TestVerifyErasedWithoutRecord: data that was erased without a recorded erasure is not a fault, and is reported.
func TestVerifyErasedWithoutRecord(t *testing.T) {
	t.Parallel()
	l := ledgertest.New(t)
	l.Append(50)
	l.Exec(`ALTER TABLE events DISABLE TRIGGER USER`)
	l.Exec(`UPDATE events SET personal = NULL, salt = NULL, personal_digest = personal_digest(salt, personal)
		WHERE log_index IN (11, 12) AND personal IS NOT NULL`)
	l.Exec(`ALTER TABLE events ENABLE TRIGGER USER`)
	out := RunCLI(t, l.URL, "events", "verify", "--no-projections")
	if out.Code != 0 || !strings.Contains(out.Stdout, "WITHOUT A RECORD") ||
		!strings.Contains(out.Stdout, "2 erased events, the first at log index 11,") {
		t.Errorf("it ends with %d: %s%s", out.Code, out.Stdout, out.Stderr)
	}
}
