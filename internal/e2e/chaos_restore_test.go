package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"novelgate/internal/testdb"
)

// TestRestoredElsewhere restores the database in another cluster, from a dump and from a copy of the files, and
// continues there, without a command in between: nothing is lost or projected twice, and the ledger stays the same.
func TestRestoredElsewhere(t *testing.T) {
	t.Parallel()
	for how, restore := range map[string]func(t *testing.T, old *server) *server{
		"from a dump": func(t *testing.T, old *server) *server {
			// Transaction ids, which a cluster assigns, must not matter. These transactions write nothing, so they need not
			// wait for the disk.
			execute(t, old.url(),
				`DO $do$ BEGIN FOR i IN 1..20000 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $do$`)
			now := startEmptyServer(t, nil)
			dumpAndRestore(t, old, now)
			return now
		},
		"from a copy of the files": func(t *testing.T, old *server) *server {
			// Projections do not wait for the disk. This commit does, so all before it is there, too.
			execute(t, old.url(), `SELECT pg_current_xact_id()`)
			old.crash(t)
			now := copyServer(t, old)
			old.start(t)
			return now
		},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			old, data := startServer(t, nil), t.TempDir() // with the key of the ledger
			before := servePatiently(t, old.url(), "--data-dir", data)
			l := newLoad(t, newPartner(t, old.url()))
			l.aim(before)
			gone := &command{path: PostsPath, key: "gone-1", title: "Left", body: encode(comment("Left", "gone", "1"))}
			l.book.enter(gone, l.send(l.book.t, before.URL, gone.path, gone.key, gone.body, false))
			l.start(4)
			l.book.await(60)
			kept := keep(t, before)
			l.book.await(60)
			l.stop()
			for _, args := range [][]string{
				{"author", "block", l.IntegrationID, planted + " reader 77", "--reason", "rude"},
				{"author", "hide-posts", l.IntegrationID, planted + " reader 8", "--reason", "rude"},
				{"author", "erase", l.IntegrationID, planted + " gone", "--reason", "asked for it"},
				{"novel", "publish", "Ours", "--reason", "ours"},
			} {
				MustCLI(t, old.url(), args...)
			}
			// otherwise the other side would have to apply the erasure before it can be verified
			awaitProjections(t, old.url(), readLog(t, old.url()))
			before.kill() // whatever it has not sealed yet
			wantErased(t, old.url())
			recorded, positions := contents(t, old.url()), checkpoints(t, old.url())

			now := restore(t, old)
			wantSame(t, "the old cluster", recorded, contents(t, now.url()))
			if got := checkpoints(t, now.url()); got != positions {
				t.Errorf("restored positions: %s, before: %s", got, positions)
			}
			wantVerified(t, now.url(), kept)
			after := servePatiently(t, now.url(), "--data-dir", data)
			l.book.reconcile(t, l.Partner, after, now.url())
			wantErased(t, now.url())
			more := newLoad(t, l.Partner)
			more.aim(after)
			more.start(4)
			more.book.await(60)
			more.stop()
			wantSoundLog(t, now.url())
			awaitSealed(t, now.url())
			wantVerified(t, now.url(), kept)
			if metrics := after.metrics(t); !strings.Contains(metrics, "novelgate_ledger_signing_refused 0") {
				t.Error("the ledger does not go on under its name")
			}
		})
	}
}

// checkpoints returns the positions of all projections and of the ledger.
func checkpoints(t *testing.T, databaseURL string) string {
	t.Helper()
	return value[string](t, databaseURL, `SELECT string_agg(name || ' ' || position, ', ' ORDER BY name)
		|| ', ledger ' || (SELECT tree_size FROM ledger_state) FROM projections`)
}

// keep stores the newest checkpoint, as an auditor does.
func keep(t *testing.T, r *Service) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kept")
	var note string
	testdb.Eventually(t, "there is a checkpoint", func() bool {
		var status int
		status, note = Get(t, r.URL+"/ledger/checkpoint")
		return status == 200
	})
	if err := os.WriteFile(path, []byte(note), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// wantVerified checks that the history agrees with a kept checkpoint.
func wantVerified(t *testing.T, databaseURL, kept string) {
	t.Helper()
	p := launch(t, "events", "verify", "--against", kept, "--database-url", databaseURL)
	if code := p.wait(t); code != 0 || !strings.Contains(p.stdout.String(), "everything agrees") ||
		!strings.Contains(p.stdout.String(), "entries: agrees") {
		t.Errorf("verify: exit code %d\n%s%s", code, p.stdout, p.stderr)
	}
}

// wantErased checks that the database has nothing of the erased reader.
func wantErased(t *testing.T, databaseURL string) {
	t.Helper()
	if n := value[int](t, databaseURL, `SELECT count(*) FROM events WHERE personal->>'uuid' LIKE '%gone'`); n != 0 {
		t.Errorf("%d events of the erased author", n)
	}
	if n := value[int](t, databaseURL,
		`SELECT count(*) FROM events WHERE event_type = 'post.imported.v1' AND personal IS NULL`); n == 0 {
		t.Error("nothing was erased")
	}
}
