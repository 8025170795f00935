package e2e_test

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
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
			t.Helper()
			now := &server{dir: dataDir(t)}
			now.startUntilEnd(t)
			dumpAndRestore(t, old, now)
			return now
		},
		"from a copy of the files": func(t *testing.T, old *server) *server {
			t.Helper()
			// Projections do not wait for the disk. The commit of a transaction that has written does, so all before it is
			// there, too.
			execute(t, old.url(), `SELECT pg_logical_emit_message(true, 'flush', '')`)
			old.crash(t)
			now := copyServer(t, old)
			old.start(t)
			return now
		},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			old, kept := startServer(t, nil), filepath.Join(t.TempDir(), "kept")
			data := t.TempDir() // with the key of the ledger
			before := servePatiently(t, old.url(), "--data-dir", data)
			l := newLoad(t, newPartner(t, old.url()), before)
			gone := &command{title: "Left"}
			gone.Request = l.Request(PostsPath, "gone-1", comment("Left", "gone", "1").JSON(t))
			l.enter(gone, l.deliver(gone))
			l.start(4)
			l.await(60)
			awaitSigned(t, old.url())
			_, note := Get(t, before.URL+"/ledger/checkpoint")
			if err := os.WriteFile(kept, []byte(note), 0o600); err != nil { // as an auditor does
				t.Fatal(err)
			}
			l.await(60)
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
			awaitProjections(t, old.url())
			before.kill() // whatever it has not sealed yet
			const checkpoints = `SELECT string_agg(name || ' ' || position, ', ' ORDER BY name)
				|| ', ledger ' || (SELECT tree_size FROM ledger_state) FROM projections`
			recorded, positions := contents(t, old.url()), value[string](t, old.url(), checkpoints)

			now := restore(t, old)
			wantSame(t, recorded, contents(t, now.url()))
			if got := value[string](t, now.url(), checkpoints); got != positions {
				t.Errorf("restored positions: %s, before: %s", got, positions)
			}
			wantVerified(t, now.url(), kept)
			after := servePatiently(t, now.url(), "--data-dir", data)
			l.reconcile(after, now.url())
			more := startLoad(t, l.Partner, 4, after)
			more.await(60)
			more.stop()
			wantSoundLog(t, now.url())
			awaitSigned(t, now.url())
			wantVerified(t, now.url(), kept)
			if !value[bool](t, now.url(), `SELECT count(*) FILTER (WHERE personal->>'uuid' LIKE '%gone') = 0
				AND count(*) FILTER (WHERE personal IS NULL) = 1 FROM events WHERE event_type = 'post.imported.v1'`) {
				t.Error("the erasure was undone")
			}
			if metrics := after.metrics(t); !strings.Contains(metrics, "novelgate_ledger_signing_refused 0") {
				t.Error("the ledger does not go on under its name")
			}
		})
	}
}

// wantVerified checks that the history agrees with a kept checkpoint.
func wantVerified(t *testing.T, databaseURL, kept string) {
	t.Helper()
	out := MustCLI(t, databaseURL, "events", "verify", "--against", kept)
	if !strings.Contains(out.Stdout, "everything agrees") || !strings.Contains(out.Stdout, "entries: agrees") {
		t.Errorf("verify: %s", out.Stdout)
	}
}

// dumpAndRestore copies a database into an empty one of another cluster, which lacks the role of its owner, as an
// operator does (docs/operators.md). Without pg_dump the test is skipped.
func dumpAndRestore(t testing.TB, from, to *server) {
	t.Helper()
	program := testdb.Must(os.Readlink(filepath.Join("/proc", strconv.Itoa(postmaster(t, from.dir)), "exe")))(t)
	tools, dir := filepath.Dir(program), t.TempDir()
	file, list := filepath.Join(dir, "novelgate.dump"), filepath.Join(dir, "list")
	if _, err := os.Stat(filepath.Join(tools, "pg_dump")); err != nil {
		t.Skip("this PostgreSQL has no pg_dump")
	}
	execute(t, to.url(), `CREATE ROLE novelgate_analytics NOLOGIN`)
	execute(t, from.url(), `CREATE ROLE former`, `ALTER SCHEMA analytics OWNER TO former`,
		`ALTER DEFAULT PRIVILEGES FOR ROLE former IN SCHEMA analytics GRANT SELECT ON TABLES TO novelgate_analytics`)
	carryOut(t, filepath.Join(tools, "pg_dump"), "--format=custom", "--file="+file, "--dbname="+from.url())
	carryOut(t, filepath.Join(tools, "pg_restore"), "--list", "--file="+list, file)
	entries := slices.DeleteFunc(strings.Split(string(testdb.Must(os.ReadFile(list))(t)), "\n"), func(line string) bool {
		return strings.Contains(line, "DEFAULT ACL")
	})
	if err := os.WriteFile(list, []byte(strings.Join(entries, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	carryOut(t, filepath.Join(tools, "pg_restore"), "--exit-on-error", "--no-owner", "--use-list="+list,
		"--dbname="+to.url(), file)
	execute(t, to.url(), `ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON ROUTINES FROM PUBLIC`,
		`ALTER DEFAULT PRIVILEGES IN SCHEMA analytics GRANT SELECT ON TABLES TO novelgate_analytics`)
}
