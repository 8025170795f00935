package audit_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"novelgate/events/ledger/audit"
	"novelgate/events/ledger/ledgertest"
	"novelgate/internal/testdb"
)

var update = flag.Bool("update", false, "write testdata/bundle if there is none; one that exists is never changed")

// TestReleased: a bundle of the first release verifies, and what reads it reads the bundles of today: they have its
// files, and their JSON has its members.
func TestReleased(t *testing.T) {
	t.Parallel()
	const path, size = "testdata/bundle", 257 // in two tiles, below a third one
	l := ledgertest.New(t)
	l.Append(size)
	l.Latest()
	today := export(t, l, 0)
	if _, err := os.Stat(path); *update && os.IsNotExist(err) {
		testdb.NoError(t, os.CopyFS(path, os.DirFS(today)))
	}

	released := bundles(t, path)
	note := testdb.Must(released.Checkpoint(t.Context()))(t)
	r := run(t, audit.Config{
		Source: released, Keys: testdb.Must(released.Keys(t.Context()))(t), Kept: map[string][]byte{"its own": note},
	})
	wantFaults(t, path, r, "", false)
	if r.Events != size || !r.KeysGiven {
		t.Errorf("%+v", r)
	}

	now := parts(t, today)
	for part := range parts(t, path) {
		if !now[part] {
			t.Errorf("a bundle has no %s any more", part)
		}
	}
}

// parts returns the files of a bundle, and the members of those with JSON.
func parts(t *testing.T, dir string) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	testdb.NoError(t, filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name := strings.TrimPrefix(path, dir)
		found[name] = true
		if !strings.Contains(filepath.Ext(name), "json") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		decoder := json.NewDecoder(strings.NewReader(string(text)))
		for decoder.More() {
			var members map[string]any
			if err := decoder.Decode(&members); err != nil {
				return err
			}
			for member := range members {
				found[name+" "+member] = true
			}
		}
		return nil
	}))
	return found
}
