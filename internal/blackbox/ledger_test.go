package blackbox_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/transparency-dev/formats/proof"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"novelgate/events/ledger"
	"novelgate/internal/blackbox"
	"novelgate/internal/testdb"
)

// ledgerStatus asks the command line.
func ledgerStatus(t *testing.T, s *blackbox.Service) ledger.Status {
	t.Helper()
	out := s.CLI(t, "ledger", "status", "--json")
	var status ledger.Status
	if err := json.Unmarshal([]byte(out.Stdout), &status); out.Code != 0 || err != nil {
		t.Fatalf("ledger status ended with %d: %v\n%s", out.Code, err, out.Stderr)
	}
	return status
}

// TestLedger signs what was appended, under the name and with the key that the operator chose, and publishes it.
func TestLedger(t *testing.T) {
	t.Parallel()
	published := t.TempDir()
	s := blackbox.Start(t, testdb.New(t), "--ledger-origin", "ledger.example/novels", "--ledger-publish-dir", published)
	for _, name := range []string{"one", "two", "three"} {
		if out := s.CLI(t, "integration", "create", name); out.Code != 0 {
			t.Fatal(out.Stderr)
		}
	}
	var status ledger.Status
	blackbox.Eventually(t, time.Minute, "everything is signed", func() bool {
		status = ledgerStatus(t, s)
		return status.Size >= 3 && status.UnsealedEvents == 0 && status.CheckpointSize != nil && *status.CheckpointSize == status.Size
	})
	if status.Error != nil || *status.Origin != "ledger.example/novels" || len(status.VerifierKeys) != 1 {
		t.Fatalf("status: %+v", status)
	}
	verifier, err := note.NewVerifier(status.VerifierKeys[0])
	if err != nil {
		t.Fatal(err)
	}
	text := s.Send(t, blackbox.Request{Method: http.MethodGet, Path: "/ledger/checkpoint"}).Body
	if _, err := note.Open(text, note.VerifierList(verifier)); err != nil || !strings.HasPrefix(string(text), "ledger.example/novels\n") {
		t.Errorf("checkpoint: %v\n%s", err, text)
	}
	if keys := s.Send(t, blackbox.Request{Method: http.MethodGet, Path: "/ledger/key"}).Body; string(keys) != status.VerifierKeys[0]+"\n" {
		t.Errorf("keys: %s", keys)
	}
	var p proof.TLogProof
	if err := p.Unmarshal(s.Send(t, blackbox.Request{Method: http.MethodGet, Path: "/ledger/proof?logIndex=1"}).Body); err != nil {
		t.Fatal(err)
	}
	code, bundle := get(t, s.URL+"/ledger/tile/entries/000.p/2")
	if code != http.StatusOK {
		t.Fatalf("entries: %d", code)
	}
	entry := []byte(bundle)[2+int(bundle[0])<<8+int(bundle[1])+2:]
	var hashes tlog.RecordProof
	for _, hash := range p.Hashes {
		hashes = append(hashes, hash)
	}
	root, err := tlog.ParseHash(status.Root)
	if err != nil {
		t.Fatal(err)
	}
	if err := tlog.CheckRecord(hashes, status.Size, root, 1, tlog.RecordHash(entry)); err != nil {
		t.Error(err)
	}
	s.Send(t, blackbox.Request{Method: http.MethodGet, Path: "/ledger/proof?logIndex=1000000"}).WantProblem(t, http.StatusNotFound, "not_found")
	s.Send(t, blackbox.Request{Method: http.MethodGet, Path: "/ledger/proof?logIndex=first"}).WantInvalid(t, "logIndex")
	blackbox.Eventually(t, time.Minute, "the checkpoint is published", func() bool {
		copied, err := os.ReadFile(filepath.Join(published, "checkpoint"))
		return err == nil && string(copied) == string(text)
	})
	if code, metrics := get(t, s.OpsURL+"/metrics"); code != http.StatusOK || !strings.Contains(metrics, "novelgate_ledger_signing_refused 0") {
		t.Errorf("/metrics: %d", code)
	}
	s.Refused(t, "serve", "--ledger-key", filepath.Join(published, "none"))
	s.Refused(t, "serve", "--ledger-publish-url", "ftp://example.com")
}

// TestLedgerOfTwoReplicas: the one without the key seals and serves, and says why it does not sign. A new key joins the old one.
func TestLedgerOfTwoReplicas(t *testing.T) {
	t.Parallel()
	database := testdb.New(t)
	first := blackbox.Start(t, database)
	second := blackbox.Start(t, database)
	blackbox.Eventually(t, time.Minute, "the second one says that it does not sign", func() bool {
		return strings.Contains(second.Stderr(), "does not sign")
	})
	if strings.Contains(first.Stderr(), "does not sign") {
		t.Errorf("the first one does not sign:\n%s", first.Stderr())
	}
	blackbox.Eventually(t, time.Minute, "the second one serves what the first one signs", func() bool {
		code, _ := get(t, second.URL+"/ledger/checkpoint")
		return code == http.StatusOK
	})
	file := filepath.Join(t.TempDir(), "ledger.key")
	out := first.CLI(t, "ledger", "new-key", "--ledger-key", file)
	origin := *ledgerStatus(t, first).Origin
	if out.Code != 0 || !strings.HasPrefix(out.Stdout, origin+"+") {
		t.Fatalf("new-key ended with %d: %s %s", out.Code, out.Stdout, out.Stderr)
	}
	if keys, err := ledger.LoadKeys(file); err != nil || len(keys) != 1 {
		t.Errorf("%d keys, %v", len(keys), err)
	}
}
