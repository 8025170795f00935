//go:build chaos

package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"novelgate/internal/testdb"
)

// TestPgBackRest backs a server up under load with deploy/pgbackrest, loses its disk, and restores it to a moment.
func TestPgBackRest(t *testing.T) {
	program, err := exec.LookPath("pgbackrest")
	if err != nil {
		t.Skip("pgbackrest is not installed: apt-get install pgbackrest")
	}
	if err := template(); err != nil {
		t.Fatalf("make a server to copy: %v", err)
	}
	place, data := dataDir(t), t.TempDir() // with the signer directory
	s := &server{dir: dataDir(t)}
	carryOut(t, "cp", "-a", (&server{dir: templateDir}).cluster(t), s.dir)
	disk := s.cluster(t)
	owner, ok := testdb.Must(os.Stat(disk))(t).Sys().(*syscall.Stat_t)
	if !ok {
		t.Fatal("files have no owners here")
	}
	// The shipped file, with the paths of the test.
	config := filepath.Join(place, "pgbackrest.conf")
	text := strings.NewReplacer("/mnt/backup", filepath.Join(place, "repo"), "/var/lib/novelgate/postgres", disk,
		"/var/lib/novelgate", disk, "[global]", "[global]\nlog-level-file=off\nlock-path="+filepath.Join(place, "lock"),
		"[novelgate]", "[novelgate]\npg1-user=postgres",
	).Replace(string(testdb.Must(os.ReadFile(filepath.Join("..", "..", "deploy", "pgbackrest", "pgbackrest.conf")))(t)))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	handOver := func(path string) {
		t.Helper()
		if err := os.Chown(path, int(owner.Uid), int(owner.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	handOver(place)
	handOver(config)
	options := []string{"--config=" + config, "--stanza=novelgate"}
	backRest := func(args ...string) {
		t.Helper()
		command := exec.CommandContext(t.Context(), program, slices.Concat(options, args)...)
		command.Dir = place
		if os.Geteuid() == 0 {
			command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}}
		}
		if said, err := command.CombinedOutput(); err != nil {
			logs, _ := filepath.Glob(filepath.Join(disk, "log", "*"))
			for _, log := range logs { // with what archive-push says
				content, _ := os.ReadFile(log)
				t.Log(lastLines(string(content), 12))
			}
			t.Fatalf("pgbackrest %v: %v\n%s", args, err, said)
		}
	}
	s.settings = map[string]string{
		"archive_mode": "on", "archive_command": program + " " + strings.Join(options, " ") + " archive-push %p",
	}
	s.startUntilEnd(t)
	backRest("stanza-create")
	backRest("check")
	service := servePatiently(t, s.url(), "--data-dir", data)
	d := newDrill(t, s.url(), service, func() {
		backRest("--type=full", "backup")
		// pgBackRest keeps the end of a backup in whole seconds, and restores to later ones only.
		ended := value[string](t, s.url(), `SELECT date_trunc('second', clock_timestamp())::text`)
		testdb.Eventually(t, "it is a later second", func() bool {
			return value[bool](t, s.url(), `SELECT clock_timestamp() >= '`+ended+`'::timestamptz + interval '2 s'`)
		})
	})
	backRest("check") // archives the newest WAL
	service.kill()
	s.crash(t)
	if err := os.RemoveAll(disk); err != nil {
		t.Fatal(err)
	}

	if err := os.Mkdir(disk, 0o700); err != nil {
		t.Fatal(err)
	}
	handOver(disk)
	backRest("--delta", "--type=time", "--target="+d.moment.UTC().Format("2006-01-02 15:04:05.999999+00"),
		"--target-action=promote", "restore")
	s.start(t)
	testdb.Eventually(t, "the recovery is complete", func() bool {
		return !value[bool](t, s.url(), `SELECT pg_is_in_recovery()`)
	})
	d.wantMoment(t, s.url, func(more ...string) *Service {
		return servePatiently(t, s.url(), slices.Concat([]string{"--data-dir", data}, more)...)
	})
}
