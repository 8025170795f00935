package pgserver_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"novelgate/internal/pgserver"
	"novelgate/internal/testdb"
)

const nobody = 65534

// TestAsOrdinaryUser repeats tests that depend on privileges as an ordinary user, if this process is root.
func TestAsOrdinaryUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		return
	}
	home := publicDir(t)
	binary := filepath.Join(publicDir(t), "pgserver.test")
	// A program that this process has written itself can be "text file busy".
	if out, err := exec.CommandContext(t.Context(), "cp", os.Args[0], binary).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := os.Chown(home, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), binary,
		"-test.run=^(TestLife|TestKilledOwner|TestKilledServerWithABusyBackend)$")
	cmd.Dir = home
	cmd.Env = append(os.Environ(), "HOME="+home, "TMPDIR=", "XDG_DATA_HOME=", "XDG_CACHE_HOME=")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestOwners: root must not change the owner of a user's data, and names the directory that stops the user.
func TestOwners(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		return
	}
	give := func(dir string, uid int) {
		t.Helper()
		err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			return os.Lchown(path, uid, uid)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	dir := dataDir(t)
	give(dir, nobody)
	server := start(t, pgserver.Config{DataDir: dir})
	wantKept(t, server.URL())
	for _, path := range []string{cluster(t, dir), filepath.Join(dir, "lock")} {
		if got := uid(t, path); got != nobody {
			t.Errorf("%s belongs to uid %d now", path, got)
		}
	}
	fails := func(dir, want string) {
		t.Helper()
		if _, err := pgserver.Start(t.Context(), pgserver.Config{DataDir: dir}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("error = %v, want %q", err, want)
		}
	}
	copied := dataDir(t)
	give(copied, 0)
	fails(copied, filepath.Base(cluster(t, copied))+" belongs to root, as whom PostgreSQL does not run")
	private := filepath.Join(emptyDir(t), "private")
	if err := os.Mkdir(private, 0o700); err != nil {
		t.Fatal(err)
	}
	fails(filepath.Join(private, "data"), private+" has mode 0700")
	if info := testdb.Must(os.Stat(private))(t); info.Mode().Perm() != 0o700 {
		t.Errorf("the private directory has mode %v", info.Mode())
	}
}
