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
	d := newDrill(t, url, service, func() {
		made := MustCLI(t, "", "backup", backups, "--data-dir", disk, "--keep", "1")
		if !strings.Contains(made.Stdout, "is complete: it can be restored to ") ||
			!strings.Contains(made.Stdout, "It has no signer directory.") {
			t.Errorf("backup prints %s", made.Stdout)
		}
	})
	last := value[string](t, url, `SELECT pg_walfile_name(pg_switch_wal())`)
	testdb.Eventually(t, last+" is archived", func() bool {
		_, err := os.Stat(filepath.Join(backups, "wal", last+".gz"))
		return err == nil
	})
	server := postmaster(t, disk)
	service.kill()
	_ = syscall.Kill(server, syscall.SIGKILL) // unless it has ended
	testdb.Eventually(t, "the disk is gone", func() bool { return os.RemoveAll(disk) == nil })

	t.Run("to the end", func(t *testing.T) {
		url, dir := restoreEmbedded(t, backups)
		service := serveEmbedded(t, dir, flags...)
		all := newLoad(t, d.early.Partner, service)
		all.commands = slices.Concat(d.early.commands, d.late.commands)
		all.reconcile(service, url())
		wantSoundLog(t, url())
		d.goOn(t, service, url())
		if metrics := service.metrics(t); !strings.Contains(metrics, "novelgate_ledger_signing_refused 0") {
			t.Error("the ledger does not go on under its name")
		}
		service.Stop(t)
	})
	t.Run("to a moment", func(t *testing.T) {
		url, dir := restoreEmbedded(t, backups, "--to", d.moment.Format(time.RFC3339Nano))
		d.wantMoment(t, url, func(more ...string) *Service {
			return serveEmbedded(t, dir, slices.Concat(patient, []string{"--ledger-signer", signer}, more)...)
		})
	})
}

// drill is what a backup must keep: early was acknowledged before a moment, and late is sent after it.
type drill struct {
	early, late *load
	moment      time.Time
	kept        string // a file with a checkpoint of before the moment, as an auditor has it
}

// newDrill backs up under load.
func newDrill(t *testing.T, url string, service *Service, backUp func()) (d drill) {
	t.Helper()
	d.early = newLoad(t, newPartner(t, url), service)
	d.early.start(4)
	d.early.await(30)
	backUp()
	d.early.await(30)
	d.early.stop()
	d.moment = value[time.Time](t, url, `SELECT clock_timestamp()`)
	awaitSigned(t, url)
	d.kept = filepath.Join(t.TempDir(), "kept")
	_, note := Get(t, service.URL+"/ledger/checkpoint")
	if err := os.WriteFile(d.kept, []byte(note), 0o600); err != nil {
		t.Fatal(err)
	}
	d.late = startLoad(t, d.early.Partner, 4, service)
	d.late.await(30)
	d.late.stop()
	awaitSigned(t, url)
	return d
}

// goOn sends more commands, and checks the ledger that has them.
func (d drill) goOn(t *testing.T, service *Service, url string) {
	t.Helper()
	more := startLoad(t, d.early.Partner, 4, service)
	more.await(10)
	more.stop()
	awaitSigned(t, url)
	wantVerified(t, url, d.kept)
}

// wantMoment checks a database that was restored to the moment. The signer directory has signed more.
func (d drill) wantMoment(t *testing.T, url func() string, serve func(more ...string) *Service) {
	t.Helper()
	service := serve()
	d.early.reconcile(service, url()) // and nothing of late is there
	wantSoundLog(t, url())
	testdb.Eventually(t, "the signer refuses", func() bool {
		return strings.Contains(service.metrics(t), "novelgate_ledger_signing_refused 1") &&
			strings.Contains(service.said(), "start a new origin with --ledger-origin")
	})
	service.Stop(t)
	service = serve("--ledger-origin", "platform.example/ledger-2")
	d.goOn(t, service, url())
	service.Stop(t)
}

// restoreEmbedded restores into a new data directory. url returns the address of its server while that runs.
func restoreEmbedded(t *testing.T, args ...string) (url func() string, dir string) {
	t.Helper()
	dir = dataDir(t)
	out := MustCLI(t, "", slices.Concat([]string{"restore", "--data-dir", dir}, args)...)
	for _, want := range []string{"Restored base-", "The last event is ", "begin a new --ledger-origin"} {
		if !strings.Contains(out.Stdout, want) {
			t.Errorf("restore does not print %q: %s", want, out.Stdout)
		}
	}
	return func() string { return testdb.Must(pgserver.Find(t.Context(), dir))(t) }, dir
}
