package verify_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"novelgate/events/ledger/ledgertest"
	"novelgate/events/ledger/verify"
)

// TestTamperedFront: a manifest is not signed. One that leaves out the files that were changed does not make the bundle
// verify, unless the auditor says that they have verified what is in front of it.
func TestTamperedFront(t *testing.T) {
	t.Parallel()
	l := ledgertest.New(t)
	l.Append(9000)
	dir := export(t, l, 0)
	edit(t, filepath.Join(dir, "events", "000.ndjson"), "threadId", "thraadId")
	wantFaults(t, "as it is", run(t, verify.Config{Source: bundles(t, dir), Keys: l.Keys}), "data@0", true)
	edit(t, filepath.Join(dir, "manifest.json"), `"firstLogIndex": 0`, `"firstLogIndex": 8192`)
	source := bundles(t, dir)
	for _, first := range []int64{0, 4096, 9000} {
		_, err := verify.Run(t.Context(), verify.Config{Source: source, First: first, Keys: l.Keys, Now: time.Now})
		if !errors.Is(err, verify.ErrFirst) || !strings.Contains(err.Error(), "log index 8192,") {
			t.Errorf("from log index %d on: %v", first, err)
		}
	}
	r := run(t, verify.Config{Source: source, First: 8192, Keys: l.Keys})
	wantFaults(t, "from log index 8192 on", r, "", false)
	if r.Unverified != 8192 || r.Entries != 808 {
		t.Errorf("%+v", r)
	}
	_, err := verify.Run(t.Context(),
		verify.Config{Source: verify.NewDatabase(l.Pool), First: 8192, Keys: l.Keys, Now: time.Now})
	if !errors.Is(err, verify.ErrFirst) {
		t.Errorf("the database, which has everything: %v", err)
	}
}

// edit replaces the first of something in a file, which must be there.
func edit(t *testing.T, path, old, with string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(text, []byte(old)) {
		t.Fatalf("%s does not hold %q", path, old)
	}
	if err := os.WriteFile(path, bytes.Replace(text, []byte(old), []byte(with), 1), 0o600); err != nil {
		t.Fatal(err)
	}
}
