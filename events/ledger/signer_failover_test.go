package ledger_test

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events/ledger"
	"novelgate/internal/testdb"
	"novelgate/migrations"
)

// signed is a database with sealed events, and its signer.
type signed struct {
	t         testing.TB
	url       string
	pool      *pgxpool.Pool
	signer    *ledger.Signer
	directory ledger.Directory
}

func newSigned(t testing.TB, url string, directory ledger.Directory) *signed {
	t.Helper()
	s := &signed{t: t, url: url, directory: directory}
	s.open()
	return s
}

// open starts a signer.
func (s *signed) open() {
	s.t.Helper()
	s.pool = openPool(s.t, s.url)
	s.signer = newSigner(s.t, s.pool, ledger.IdentityConfig{Directory: s.directory})
}

// grow appends and seals n events.
func (s *signed) grow(n int) {
	s.t.Helper()
	appendEvents(s.t, s.pool, n)
	stop := startSealer(s.t, ledger.SealerConfig{Pool: s.pool})
	awaitSealed(s.t, s.pool)
	stop()
}

func (s *signed) wantRefused(what string, want error) {
	s.t.Helper()
	before := chain(s.t, s.pool)
	if err := s.signer.Sign(s.t.Context()); !errors.Is(err, want) {
		s.t.Errorf("%s: %v", what, err)
	}
	if diff := cmp.Diff(before, chain(s.t, s.pool)); diff != "" {
		s.t.Errorf("%s: checkpoints (-before +after):\n%s", what, diff)
	}
}

// restored returns a copy of the database: a promoted standby or a restored backup. Both databases accept events from
// now on.
func (s *signed) restored(directory ledger.Directory) *signed {
	s.t.Helper()
	s.pool.Close() // PostgreSQL copies only a database without connections
	url := testdb.Copy(s.t, s.url)
	s.open()
	return newSigned(s.t, url, directory)
}

// TestOneHistoryIsSigned: of two databases that are both written, only the one with the events of the last note is
// signed. The other is refused, whether its tree is shorter, as long or longer.
func TestOneHistoryIsSigned(t *testing.T) {
	t.Parallel()
	old := newSigned(t, testdb.New(t), newDirectory(t))
	old.grow(10)
	sign(t, old.signer)
	now := old.restored(old.directory)
	old.grow(2)
	sign(t, old.signer) // and published
	now.wantRefused("a shorter tree", ledger.ErrForked)
	now.grow(2)
	now.wantRefused("another one of the same size", ledger.ErrForked)
	now.grow(2)
	now.wantRefused("a longer one", ledger.ErrForked)
	newSigned(t, now.url, now.directory).wantRefused("a longer one, after a restart", ledger.ErrForked)
	old.grow(1)
	sign(t, old.signer)
	wantChain(t, old.pool, 10, 12, 13)

	next := newSigner(t, now.pool, ledger.IdentityConfig{Directory: old.directory, Origin: testOrigin + "-2"})
	sign(t, next)
	if c := latest(t, now.pool); c.Origin != testOrigin+"-2" || c.Tree.N != 14 {
		t.Errorf("the new origin signs %s, %d entries", c.Origin, c.Tree.N)
	}
	left := ledger.IdentityConfig{Origin: testOrigin, Directory: old.directory}
	if _, err := ledger.Identify(t.Context(), now.pool, left); !errors.Is(err, ledger.ErrOldOrigin) {
		t.Errorf("the old origin is taken up again: %v", err)
	}
}

// signAndDie signs like a process that is killed when the directory has the checkpoint, and the database does not.
func (s *signed) signAndDie() {
	s.t.Helper()
	testdb.Exec(s.t, s.pool, `ALTER TABLE ledger_checkpoints ADD CONSTRAINT killed CHECK (false) NOT VALID`)
	if err := s.signer.Sign(s.t.Context()); err == nil || !strings.Contains(err.Error(), "killed") {
		s.t.Fatal(err)
	}
	testdb.Exec(s.t, s.pool, `ALTER TABLE ledger_checkpoints DROP CONSTRAINT killed`)
}

// signBeside signs, and calls meanwhile when the directory has the checkpoint, and the database does not.
func signBeside(t testing.TB, pool *pgxpool.Pool, signer *ledger.Signer, meanwhile func(pgx.Tx)) error {
	t.Helper()
	tx := testdb.Begin(t, pool)
	testdb.Exec(t, tx, `LOCK TABLE ledger_checkpoints IN SHARE MODE`)
	ended := make(chan error, 1)
	go func() { ended <- signer.Sign(context.Background()) }()
	testdb.Eventually(t, "the signer stores the checkpoint", func() bool {
		return testdb.Value[bool](t, pool, `SELECT EXISTS (SELECT FROM pg_locks AS l JOIN pg_database AS d ON d.oid = l.database
			WHERE d.datname = current_database() AND l.relation = 'ledger_checkpoints'::regclass AND NOT l.granted)`)
	})
	meanwhile(tx)
	testdb.NoError(t, tx.Commit(t.Context()))
	return <-ended
}

// TestKilledWhileSigning: a signer is killed before the database has a checkpoint. The next signer continues. A
// database that lacks what the note covers, which may be public, is refused.
func TestKilledWhileSigning(t *testing.T) {
	t.Parallel()
	s := newSigned(t, testdb.New(t), newDirectory(t))
	s.grow(10)
	sign(t, s.signer)
	s.grow(1)
	s.signAndDie()
	wantChain(t, s.pool, 10)
	now := s.restored(s.directory)
	s.grow(1)
	s.signAndDie()
	now.wantRefused("a tree without the last event", ledger.ErrForked)
	s.grow(1)
	sign(t, s.signer)
	wantChain(t, s.pool, 10, 13)
	if diff := cmp.Diff(string(latest(t, s.pool).Note), noted(t, s.directory)); diff != "" {
		t.Errorf("note (-newest checkpoint +got):\n%s", diff)
	}
}

// TestSignerWaitsForWhatIsSealedAgain: after a crash the tree may be shorter than the signed one. It grows to the same
// tree again.
func TestSignerWaitsForWhatIsSealedAgain(t *testing.T) {
	t.Parallel()
	s := newSigned(t, testdb.New(t), newDirectory(t))
	s.grow(10)
	s.signAndDie()
	setBack(t, s.pool, int(count(t, s.pool, "events"))) // only the tree, not the events
	sign(t, s.signer)
	wantChain(t, s.pool)
	s.grow(1)
	sign(t, s.signer)
	wantChain(t, s.pool, 11)
}

// TestTheNoteComesFirst: if it cannot be stored in the directory, the checkpoint is not in the database either.
func TestTheNoteComesFirst(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	// A file with this name is possible, but not the temporary file beside it.
	signer := newSigner(t, pool, ledger.IdentityConfig{Origin: strings.Repeat("x", 255-len(".checkpoint"))})
	if err := signer.Sign(t.Context()); !errors.Is(err, syscall.ENAMETOOLONG) {
		t.Errorf("signed without a note: %v", err)
	}
	wantChain(t, pool)
}

func newDirectory(t testing.TB) ledger.Directory {
	t.Helper()
	return ledger.Directory(filepath.Join(t.TempDir(), "signer"))
}

func (s *signed) copyDirectory() (copied ledger.Directory) {
	s.t.Helper()
	copied = newDirectory(s.t)
	testdb.NoError(s.t, os.CopyFS(string(copied), os.DirFS(string(s.directory))))
	return copied
}

// TestCopyOfDirectoryIsRefused once the original has signed again, also after the database was set back to where it
// shows that.
func TestCopyOfDirectoryIsRefused(t *testing.T) {
	t.Parallel()
	s := newSigned(t, testdb.New(t), newDirectory(t))
	s.grow(5)
	sign(t, s.signer)
	copied := s.copyDirectory()
	s.grow(5)
	sign(t, s.signer)
	other := s.restored(copied)
	s.grow(2)
	sign(t, s.signer)
	other.wantRefused("a copy that has missed a checkpoint", ledger.ErrDirectory)
	other.grow(3)
	other.wantRefused("the same, over another history", ledger.ErrDirectory)
	again := newSigned(t, s.url, copied)
	again.wantRefused("the same, beside the original", ledger.ErrDirectory)
}

// TestDirectoryAndDatabaseSetBackTogether: a running process refuses to sign another history, although only the process
// knows the first one.
func TestDirectoryAndDatabaseSetBackTogether(t *testing.T) {
	t.Parallel()
	s := newSigned(t, testdb.New(t), newDirectory(t))
	s.grow(5)
	sign(t, s.signer)
	backup := s.copyDirectory()
	s.pool.Close()
	now := &signed{t: t, url: testdb.Copy(t, s.url)}
	now.pool = openPool(t, now.url)

	current := s.url
	config, err := pgxpool.ParseConfig(s.url)
	if err != nil {
		t.Fatal(err)
	}
	config.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
		c.Database = path.Base(strings.Split(current, "?")[0])
		return nil
	}
	if s.pool, err = pgxpool.NewWithConfig(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.pool.Close)
	s.signer = newSigner(t, s.pool, ledger.IdentityConfig{Directory: s.directory})
	s.grow(3)
	sign(t, s.signer) // and published

	directory := string(s.directory)
	testdb.NoError(t, errors.Join(os.RemoveAll(directory), os.CopyFS(directory, os.DirFS(string(backup)))))
	current = now.url
	s.pool.Reset()
	s.wantRefused("a shorter tree", ledger.ErrForked)
	for _, what := range []string{"another one of the same size", "a longer one"} {
		now.grow(3)
		s.wantRefused(what, ledger.ErrForked)
	}
}

// TestReplicaWithoutTheDirectory: a replica without the signer directory of the origin, or with another one, does not
// sign it. After the loss of the directory, another one signs a new origin.
func TestReplicaWithoutTheDirectory(t *testing.T) {
	t.Parallel()
	empty := testdb.New(t)
	s := newSigned(t, testdb.Copy(t, empty), newDirectory(t))
	s.grow(5)
	sign(t, s.signer)
	wantSilent := func(what string, config ledger.IdentityConfig) {
		t.Helper()
		config.OriginPrefix = "x"
		id, err := ledger.Identify(t.Context(), s.pool, config)
		if err != nil {
			t.Fatal(err)
		}
		_, err = ledger.NewSigner(ledger.SignerConfig{Pool: s.pool, Identity: id})
		if err == nil || !errors.Is(id.Reason, ledger.ErrDirectory) || len(id.VerifierKeys) != 0 {
			t.Errorf("%s: %v, %+v", what, err, id)
		}
	}
	missing := newDirectory(t)
	wantSilent("without a directory", ledger.IdentityConfig{Directory: missing})
	if _, err := os.Stat(string(missing)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory was made for an origin that has one: %v", err)
	}
	foreign := newSigned(t, testdb.Copy(t, empty), newDirectory(t))
	wantSilent("with a directory of another ledger", ledger.IdentityConfig{Directory: foreign.directory})
	withKey := newDirectory(t)
	if err := errors.Join(os.Mkdir(string(withKey), 0o700),
		os.WriteFile(withKey.KeyFile(), testdb.Must(os.ReadFile(s.directory.KeyFile()))(t), 0o600)); err != nil {
		t.Fatal(err)
	}
	wantSilent("with only the key", ledger.IdentityConfig{Directory: withKey})

	next := newSigner(t, s.pool, ledger.IdentityConfig{Directory: missing, Origin: testOrigin + "-2"})
	sign(t, next)
	if c := latest(t, s.pool); c.Origin != testOrigin+"-2" {
		t.Errorf("the new directory signs %s", c.Origin)
	}
	if err := s.signer.Sign(t.Context()); err != nil {
		t.Errorf("a replica that was not restarted: %v", err)
	}
}

// TestReadOnlyDirectory: the service starts, and starts no origin, which nobody could sign.
func TestReadOnlyDirectory(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	file := filepath.Join(t.TempDir(), "file") // in the place of the parent: root may write everywhere
	testdb.NoError(t, os.WriteFile(file, nil, 0o600))
	config := ledger.IdentityConfig{OriginPrefix: testOrigin, Directory: ledger.Directory(filepath.Join(file, "signer"))}
	id, err := ledger.Identify(t.Context(), pool, config)
	if err != nil || id.Reason == nil || id.Started {
		t.Errorf("identity %+v, %v", id, err)
	}
	if n := count(t, pool, "ledger_origins"); n != 0 {
		t.Errorf("%d origins were started", n)
	}
	config.Directory = newDirectory(t)
	if id = testdb.Must(ledger.Identify(t.Context(), pool, config))(t); !id.Started || id.Reason != nil {
		t.Errorf("with a directory: %+v", id)
	}
}

// TestOneDirectoryForTwoLogs: a second database on a machine starts its own origin with the same directory.
func TestOneDirectoryForTwoLogs(t *testing.T) {
	t.Parallel()
	directory := newDirectory(t)
	origins := map[string]bool{}
	for range 2 {
		url := testdb.NewEmpty(t) // databases of testdb.New share the log id of their template
		testdb.Must(migrations.Apply(t.Context(), url))(t)
		pool := openPool(t, url)
		config := ledger.IdentityConfig{OriginPrefix: "h/ledger", Directory: directory}
		id := testdb.Must(ledger.Identify(t.Context(), pool, config))(t)
		signer := testdb.Must(ledger.NewSigner(ledger.SignerConfig{Pool: pool, Identity: id}))(t)
		appendEvents(t, pool, 1)
		startSealer(t, ledger.SealerConfig{Pool: pool})
		awaitSealed(t, pool)
		sign(t, signer)
		origins[latest(t, pool).Origin] = true
	}
	if len(origins) != 2 {
		t.Errorf("origins: %v", origins)
	}
}

// TestDirectoryIsLocked: while one process signs with it, another one stands by.
func TestDirectoryIsLocked(t *testing.T) {
	t.Parallel()
	s := newSigned(t, testdb.New(t), newDirectory(t))
	other := newSigner(t, s.pool, ledger.IdentityConfig{Directory: s.directory})
	testdb.NoError(t, signBeside(t, s.pool, other, func(pgx.Tx) { s.wantRefused("a locked directory", ledger.ErrLocked) }))
	s.grow(1)
	sign(t, s.signer)
	wantChain(t, s.pool, 0, 1)
}

// TestReplicasSignAsOften as one replica, if they share its directory: a replica leaves a checkpoint that another one
// has just signed for an interval.
func TestReplicasSignAsOften(t *testing.T) {
	t.Parallel()
	s := newSigned(t, testdb.New(t), newDirectory(t))
	s.grow(1)
	sign(t, s.signer)
	s.grow(1)
	pool := openPool(t, s.url)
	id := testdb.Must(ledger.Identify(t.Context(), pool, ledger.IdentityConfig{Directory: s.directory}))(t)
	replica := func(interval time.Duration) *ledger.Signer {
		return testdb.Must(ledger.NewSigner(ledger.SignerConfig{
			Pool: pool, Identity: id, Interval: interval, Logger: slog.New(slog.DiscardHandler),
		}))(t)
	}
	// attempt runs a signer until its first attempt has ended. The attempt holds a connection.
	attempt := func(signer *ledger.Signer) {
		t.Helper()
		before := pool.Stat().AcquireCount()
		stop := testdb.Background(t, signer.Run)
		testdb.Eventually(t, "an attempt has ended", func() bool {
			now := pool.Stat()
			return now.AcquireCount() > before && now.AcquiredConns() == 0
		})
		stop()
	}
	hourly := replica(time.Hour)
	attempt(hourly)
	wantChain(t, s.pool, 1)
	attempt(hourly) // the other replica has signed nothing since
	wantChain(t, s.pool, 1, 2)
	s.grow(1)
	testdb.Background(t, replica(time.Millisecond).Run)
	testdb.Eventually(t, "a replica signs after an interval", func() bool { return len(chain(t, s.pool)) == 3 })
	wantChain(t, s.pool, 1, 2, 3)
}
