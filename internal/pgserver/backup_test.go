package pgserver_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"novelgate/internal/pgserver"
	"novelgate/internal/testdb"
)

// backupDir returns an empty backup directory, with characters that shells and settings treat specially.
func backupDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(publicDir(t), `a 'b' %p "$c`)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// record adds a number to the table kept, in a WAL file of its own, which the server archives.
func record(t *testing.T, server *pgserver.Server, n int) {
	t.Helper()
	query[int](t, server.URL(), `INSERT INTO kept VALUES ($1) RETURNING n`, n)
	query[string](t, server.URL(), `SELECT pg_switch_wal()::text`)
}

// wantRestored restores a backup and compares the table kept.
func wantRestored(t *testing.T, backups string, to time.Time, want string) (dir string) {
	t.Helper()
	dir = emptyDir(t)
	server, _, err := pgserver.Restore(t.Context(), pgserver.Config{DataDir: dir}, backups, to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop(context.Background()) })
	if got := query[string](t, server.URL(), `SELECT string_agg(n::text, ' ' ORDER BY n) FROM kept`); got != want {
		t.Errorf("restored to %v: %s, want %s", to, got, want)
	}
	stop(t, server)
	return dir
}

func backUp(t *testing.T, dir, backups string) pgserver.Backup {
	t.Helper()
	return testdb.Must(pgserver.BackUp(t.Context(), dir, backups, func(warning string) { t.Error(warning) }))(t)
}

// newest returns the last path of a pattern.
func newest(t *testing.T, pattern ...string) string {
	t.Helper()
	// Glob would take a path for a pattern, too.
	found := testdb.Must(os.ReadDir(filepath.Join(pattern[:len(pattern)-1]...)))(t)
	for _, entry := range slices.Backward(found) {
		if ok, _ := filepath.Match(pattern[len(pattern)-1], entry.Name()); ok {
			return filepath.Join(append(pattern[:len(pattern)-1:len(pattern)-1], entry.Name())...)
		}
	}
	t.Fatalf("no %v", pattern)
	return ""
}

// TestBackup backs a server up while it runs, and restores to moments and to the end, also across an earlier restore.
// Whatever is missing or damaged, a restore fails, says where, and leaves nothing.
func TestBackup(t *testing.T) {
	t.Parallel()
	dir, backups := dataDir(t), backupDir(t)
	server := start(t, pgserver.Config{DataDir: dir, BackupDir: backups})
	left := filepath.Join(backups, "base-1.part")
	if err := os.Mkdir(left, 0o700); err != nil {
		t.Fatal(err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := pgserver.BackUp(canceled, dir, backups, nil); err == nil {
		t.Error("an interrupted backup succeeds")
	}
	first := backUp(t, dir, backups)
	if _, err := os.Stat(left); err == nil {
		t.Error("an unfinished backup is still there")
	}
	if _, err := pgserver.Start(t.Context(), pgserver.Config{DataDir: dataDir(t), BackupDir: backups}); err == nil ||
		!strings.Contains(err.Error(), "another server archives") {
		t.Errorf("two servers archive into one directory: %v", err)
	}
	record(t, server, 2)
	moment := query[time.Time](t, server.URL(), `SELECT clock_timestamp()`)
	record(t, server, 3)
	record(t, server, 4)
	stop(t, server) // archives what is left

	wantRestored(t, backups, moment, "1 2")
	restored := wantRestored(t, backups, time.Time{}, "1 2 3 4")
	wantRefusedRestores(t, backups, first)

	// The restored server continues on another timeline.
	server = start(t, pgserver.Config{DataDir: restored, BackupDir: backups})
	record(t, server, 5)
	stop(t, server)
	wantRestored(t, backups, time.Time{}, "1 2 3 4 5")
	server = start(t, pgserver.Config{DataDir: restored, BackupDir: backups})
	second := backUp(t, restored, backups)
	record(t, server, 6)
	stop(t, server)
	deleted := testdb.Must(pgserver.Prune(backups, 1))(t)
	if diff := cmp.Diff([]string{first.Name}, deleted); diff != "" {
		t.Errorf("deleted (-want +got)\n%s", diff)
	}
	if _, err := os.Stat(filepath.Join(backups, "wal", first.FirstWAL+".gz")); err == nil {
		t.Error("WAL that no backup needs is still there")
	}
	wantRestored(t, backups, time.Time{}, "1 2 3 4 5 6")
	wantRestored(t, backups, second.Ended, "1 2 3 4 5")
}

func wantRefusedRestores(t *testing.T, backups string, b pgserver.Backup) {
	t.Helper()
	rewrite := func(change func(string) string, path ...string) func(string) {
		return func(dir string) {
			file := newest(t, append([]string{dir}, path...)...)
			content := testdb.Must(os.ReadFile(file))(t)
			if err := os.WriteFile(file, []byte(change(string(content))), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	remove := func(path ...string) func(string) {
		return func(dir string) {
			if err := os.RemoveAll(newest(t, append([]string{dir}, path...)...)); err != nil {
				t.Fatal(err)
			}
		}
	}
	half := func(content string) string { return content[:len(content)/2] }
	for name, test := range map[string]struct {
		spoil func(dir string)
		to    time.Time
		want  string
	}{
		"no backup":       {remove(b.Name), time.Time{}, "no complete base backup"},
		"no description":  {remove(b.Name, "backup.json"), time.Time{}, "is damaged: move it away"},
		"half a backup":   {rewrite(half, b.Name, "base.tar.gz"), time.Time{}, "unexpected EOF"},
		"half a manifest": {rewrite(half, b.Name, "backup_manifest"), time.Time{}, "backup_manifest: "},
		"another file": {rewrite(func(content string) string {
			return strings.Replace(content, `"Path": "PG_VERSION", "Size": 3, `, `"Path": "PG_VERSIOM", "Size": 3, `, 1)
		}, b.Name, "backup_manifest"), time.Time{}, "PG_VERSION is damaged"},
		"another version": {rewrite(func(content string) string {
			return strings.Replace(content, fmt.Sprint(`"postgresql":`, b.PostgreSQL), `"postgresql":14`, 1)
		}, b.Name, "backup.json"), time.Time{}, "PostgreSQL 14"},
		"missing WAL": {func(dir string) {
			remove("wal", strings.TrimSuffix(b.LastWAL, b.LastWAL[20:])+"*4.gz")(dir)
		}, time.Time{}, "WAL is missing"},
		"damaged WAL":     {rewrite(half, "wal", "*.gz"), time.Time{}, "could not restore file"},
		"before a backup": {func(string) {}, b.Began, "cannot be restored to an earlier moment"},
		"in the future":   {func(string) {}, b.Ended.Add(time.Hour), "no archived transaction is as late as --to"},
	} {
		t.Run(name, func(t *testing.T) {
			spoiled, dir := filepath.Join(publicDir(t), "copy"), emptyDir(t)
			if out, err := exec.CommandContext(t.Context(), "cp", "-a", backups, spoiled).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			test.spoil(spoiled)
			_, _, err := pgserver.Restore(t.Context(), pgserver.Config{DataDir: dir}, spoiled, test.to)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %s", err, test.want)
			}
			if found, _ := filepath.Glob(filepath.Join(dir, "pg*")); len(found) > 0 {
				t.Errorf("it leaves %v", found)
			}
		})
	}
	full := pgserver.Config{DataDir: dataDir(t)}
	if _, _, err := pgserver.Restore(t.Context(), full, backups, time.Time{}); err == nil ||
		!strings.Contains(err.Error(), "is not empty (pg") {
		t.Errorf("a restore over data: %v", err)
	}
}

// TestArchive: a server refuses a backup directory that cannot have its WAL, and tells of WAL that it did not archive.
func TestArchive(t *testing.T) {
	t.Parallel()
	dir, backups := dataDir(t), backupDir(t)
	server := start(t, pgserver.Config{DataDir: dir})
	if _, err := pgserver.BackUp(t.Context(), dir, backups, nil); err == nil ||
		!strings.Contains(err.Error(), "does not archive its WAL into") {
		t.Errorf("a backup without WAL: %v", err)
	}
	stop(t, server)
	server = start(t, pgserver.Config{DataDir: dir, BackupDir: backups})
	record(t, server, 2)
	stop(t, server)
	for want, refused := range map[string]pgserver.Config{
		"belongs to another database": {DataDir: emptyDir(t), BackupDir: backups},
		"no such file or directory":   {DataDir: dir, BackupDir: filepath.Join(backups, "typo")},
	} {
		if _, err := pgserver.Start(t.Context(), refused); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	server = start(t, pgserver.Config{DataDir: dir})
	for n := range 3 {
		record(t, server, n)
	}
	query[string](t, server.URL(), `SELECT 'checkpoint' FROM pg_backup_start('', true)`)
	record(t, server, 4)
	stop(t, server)
	log := &testdb.Log{}
	server = start(t, pgserver.Config{DataDir: dir, BackupDir: backups, Logger: log.Logger()})
	stop(t, server)
	if !strings.Contains(log.String(), "WAL was lost before it was archived") {
		t.Errorf("the gap is not told: %s", log)
	}
}
