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
	place := publicDir(t)
	binary := filepath.Join(place, "pgserver.test")
	copyProgram(t, binary, os.Args[0])
	home := filepath.Join(place, "home")
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(home, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), binary,
		"-test.run=^(TestStartAndStop|TestDataIsKept|TestAttach|TestKilledOwner|"+
			"TestReusedProcessNumber|TestNPM|TestStandby)$")
	cmd.Dir = home
	cmd.Env = append(os.Environ(), "HOME="+home, "TMPDIR="+home, "XDG_DATA_HOME=", "XDG_CACHE_HOME=")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// publicDir is a temporary directory that every user can enter.
func publicDir(t *testing.T) string {
	t.Helper()
	dir := testdb.Must(os.MkdirTemp("", "novelgate-pgserver-test-*"))(t)
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// copyProgram copies with cp: a program that this process has written can be "text file busy", because what another
// test starts at that moment inherits the open file until its exec.
func copyProgram(t *testing.T, to, from string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "cp", from, to).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// TestDataOfAnotherUser: root must not change the owner of a user's data.
func TestDataOfAnotherUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		return
	}
	dir := dataDir(t)
	stop(t, start(t, pgserver.Config{DataDir: dir}))
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, nobody, nobody)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}

	server := start(t, pgserver.Config{DataDir: dir})
	query(t, server.URL(), keepOne)
	info, err := os.Stat(cluster(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	if uid := info.Sys().(*syscall.Stat_t).Uid; uid != nobody {
		t.Errorf("the data belongs to uid %d now", uid)
	}
}

// TestUnreachableDataDir: as root, PostgreSQL runs as a user who may not enter root's private directories.
func TestUnreachableDataDir(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		return
	}
	private := filepath.Join(dataDir(t), "private")
	if err := os.Mkdir(private, 0o700); err != nil {
		t.Fatal(err)
	}
	server := start(t, pgserver.Config{DataDir: filepath.Join(private, "data")})
	query(t, server.URL(), keepOne)
	info, err := os.Stat(private)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm()&0o007 != 0 {
		t.Errorf("the private directory is open to others: %v", info.Mode())
	}

	// A directory of another owner that the user may not enter stays unchanged.
	foreign := filepath.Join(dataDir(t), "foreign")
	if err := os.Mkdir(foreign, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(foreign, nobody-1, nobody-1); err != nil {
		t.Fatal(err)
	}
	_, err = pgserver.Start(t.Context(), pgserver.Config{DataDir: filepath.Join(foreign, "data")})
	if err == nil || !strings.Contains(err.Error(), foreign+" has mode 0700") {
		t.Errorf("error = %v", err)
	}
}
