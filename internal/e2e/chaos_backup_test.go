package e2e_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"novelgate/internal/pgserver"
	"novelgate/internal/testdb"
)

// TestDiskIsGone loses the disk of an embedded server that was backed up under load, and restores it to the end of the
// archived WAL and to a moment. Nothing acknowledged before is lost, nothing later is there, and the ledger never
// forks: with the signer directory that survived it goes on, or refuses until it gets a new origin.
func TestDiskIsGone(t *testing.T) {
	t.Parallel()
	disk, backups, signer := dataDir(t), dataDir(t), filepath.Join(t.TempDir(), "signer")
	flags := slices.Concat(patient, []string{"--backup-dir", backups, "--ledger-signer", signer})
	service := serveEmbedded(t, disk, flags...)
	url := testdb.Must(pgserver.Find(t.Context(), disk))(t)
	p := newPartner(t, url)

	early := newLoad(t, p, service)
	early.start(4)
	early.await(30)
	made := MustCLI(t, "", "backup", backups, "--data-dir", disk, "--keep", "1")
	early.await(30)
	early.stop()
	moment := value[time.Time](t, url, `SELECT clock_timestamp()`)
	awaitSigned(t, url)
	kept := filepath.Join(t.TempDir(), "kept")
	_, note := Get(t, service.URL+"/ledger/checkpoint")
	if err := os.WriteFile(kept, []byte(note), 0o600); err != nil { // as an auditor does
		t.Fatal(err)
	}
	late := startLoad(t, p, 4, service)
	late.await(30)
	late.stop()
	awaitSigned(t, url)
	last := value[string](t, url, `SELECT pg_walfile_name(pg_switch_wal())`)
	testdb.Eventually(t, last+" is archived", func() bool {
		_, err := os.Stat(filepath.Join(backups, "wal", last+".gz"))
		return err == nil
	})
	server := postmaster(t, disk)
	service.kill()
	_ = syscall.Kill(server, syscall.SIGKILL) // unless it has ended
	testdb.Eventually(t, "the disk is gone", func() bool { return os.RemoveAll(disk) == nil })
	if !strings.Contains(made.Stdout, "is complete: it can be restored to ") ||
		!strings.Contains(made.Stdout, "It has no signer directory.") {
		t.Errorf("backup prints %s", made.Stdout)
	}

	t.Run("to the end", func(t *testing.T) {
		service, url, _ := restoreEmbedded(t, flags, backups)
		all := newLoad(t, p, service)
		all.commands = slices.Concat(early.commands, late.commands)
		all.reconcile(service, url)
		wantSoundLog(t, url)
		more := startLoad(t, p, 4, service)
		more.await(10)
		more.stop()
		awaitSigned(t, url)
		wantVerified(t, url, kept)
		if metrics := service.metrics(t); !strings.Contains(metrics, "novelgate_ledger_signing_refused 0") {
			t.Error("the ledger does not go on under its name")
		}
		service.Stop(t)
	})
	t.Run("to a moment", func(t *testing.T) {
		flags := slices.Concat(patient, []string{"--ledger-signer", signer})
		service, url, dir := restoreEmbedded(t, flags, backups, "--to", moment.Format(time.RFC3339Nano))
		early.reconcile(service, url) // and nothing of late is there
		wantSoundLog(t, url)
		testdb.Eventually(t, "the signer refuses", func() bool {
			return strings.Contains(service.metrics(t), "novelgate_ledger_signing_refused 1") &&
				strings.Contains(service.said(), "start a new origin with --ledger-origin")
		})
		service.Stop(t)
		service = serveEmbedded(t, dir, slices.Concat(flags, []string{"--ledger-origin", "platform.example/ledger-2"})...)
		more := startLoad(t, p, 4, service)
		more.await(10)
		more.stop()
		awaitSigned(t, url)
		wantVerified(t, url, kept)
		service.Stop(t)
	})
}

// restoreEmbedded restores into a new data directory, and serves it.
func restoreEmbedded(t *testing.T, flags []string, args ...string) (service *Service, url, dir string) {
	t.Helper()
	dir = dataDir(t)
	out := MustCLI(t, "", slices.Concat([]string{"restore", "--data-dir", dir}, args)...)
	for _, want := range []string{"Restored base-", "The last event is ", "begin a new --ledger-origin"} {
		if !strings.Contains(out.Stdout, want) {
			t.Errorf("restore does not print %q: %s", want, out.Stdout)
		}
	}
	service = serveEmbedded(t, dir, flags...)
	return service, testdb.Must(pgserver.Find(t.Context(), dir))(t), dir
}
