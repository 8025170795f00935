package ledger_test

import (
	"context"
	"errors"
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
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"novelgate/events/ledger"
	"novelgate/internal/testdb"
	"novelgate/migrations"
)

// signed is a database with sealed events, and its signer.
type signed struct {
	t       testing.TB
	url     string
	pool    *pgxpool.Pool
	signer  *ledger.Signer
	keyFile string
}

func newSigned(t testing.TB, url, keyFile string) *signed {
	t.Helper()
	s := &signed{t: t, url: url, keyFile: keyFile}
	s.open()
	return s
}

// open starts a signer.
func (s *signed) open() {
	s.t.Helper()
	s.pool = openPool(s.t, s.url)
	s.signer = newSigner(s.t, s.pool, ledger.IdentityConfig{KeyFile: s.keyFile})
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
// now on. The copy's signer has the memory of keyFile.
func (s *signed) restored(keyFile string) *signed {
	s.t.Helper()
	s.pool.Close() // PostgreSQL copies only a database without connections
	url := testdb.Copy(s.t, s.url)
	s.open()
	return newSigned(s.t, url, keyFile)
}

// TestOneHistoryIsSigned: of two databases that are both written, only the one with the events of the memory is signed.
// The other is refused, whether its tree is shorter, as long or longer.
func TestOneHistoryIsSigned(t *testing.T) {
	t.Parallel()
	old := newSigned(t, testdb.New(t), filepath.Join(t.TempDir(), "ledger.key"))
	old.grow(10)
	sign(t, old.signer)
	now := old.restored(old.keyFile)
	old.grow(2)
	sign(t, old.signer) // and published
	now.wantRefused("a shorter tree", ledger.ErrForked)
	now.grow(2)
	now.wantRefused("another one of the same size", ledger.ErrForked)
	now.grow(2)
	now.wantRefused("a longer one", ledger.ErrForked)
	newSigned(t, now.url, now.keyFile).wantRefused("a longer one, after a restart", ledger.ErrForked)
	old.grow(1)
	sign(t, old.signer)
	if diff := cmp.Diff([]int64{10, 12, 13}, chain(t, old.pool)); diff != "" {
		t.Errorf("checkpoints (-want +got):\n%s", diff)
	}

	next := newSigner(t, now.pool, ledger.IdentityConfig{KeyFile: old.keyFile, Origin: testOrigin + "-2"})
	sign(t, next)
	if c := latest(t, now.pool); c.Origin != testOrigin+"-2" || c.Tree.N != 14 {
		t.Errorf("the new origin signs %s, %d entries", c.Origin, c.Tree.N)
	}
	left := ledger.IdentityConfig{Origin: testOrigin, KeyFile: old.keyFile}
	if _, err := ledger.Identify(t.Context(), now.pool, left); !errors.Is(err, ledger.ErrOldOrigin) {
		t.Errorf("the old origin is taken up again: %v", err)
	}
}

// TestKilledWhileSigning: a signer is killed before the memory or the database has a checkpoint. The next signer
// continues. A database that lacks a checkpoint of the memory, which may be public, is refused.
func TestKilledWhileSigning(t *testing.T) {
	t.Parallel()
	s := newSigned(t, testdb.New(t), filepath.Join(t.TempDir(), "ledger.key"))
	s.grow(10)
	sign(t, s.signer)
	for _, isRemembered := range []bool{false, true} {
		s.grow(1)
		if err := s.signer.SignAndDie(t.Context(), isRemembered); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]int64{10}, chain(t, s.pool)); diff != "" {
			t.Errorf("checkpoints (-want +got):\n%s", diff)
		}
	}
	now := s.restored(s.keyFile)
	s.grow(1)
	if err := s.signer.SignAndDie(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	now.wantRefused("a tree without the last event", ledger.ErrForked)
	s.grow(1)
	sign(t, s.signer)
	if diff := cmp.Diff([]int64{10, 14}, chain(t, s.pool)); diff != "" {
		t.Errorf("checkpoints (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(string(latest(t, s.pool).Note), remembered(t, s.keyFile)); diff != "" {
		t.Errorf("memory (-newest checkpoint +got):\n%s", diff)
	}
}

// TestSignerWaitsForWhatIsSealedAgain: after a crash the tree may be shorter than the signed one. It grows to the same
// tree again.
func TestSignerWaitsForWhatIsSealedAgain(t *testing.T) {
	t.Parallel()
	s := newSigned(t, testdb.New(t), filepath.Join(t.TempDir(), "ledger.key"))
	s.grow(10)
	if err := s.signer.SignAndDie(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	setBack(t, s.pool, int(count(t, s.pool, "events"))) // only the tree, not the events
	sign(t, s.signer)
	if sizes := chain(t, s.pool); len(sizes) != 0 {
		t.Errorf("signed before all was sealed again: %v", sizes)
	}
	s.grow(1)
	sign(t, s.signer)
	if diff := cmp.Diff([]int64{11}, chain(t, s.pool)); diff != "" {
		t.Errorf("checkpoints (-want +got):\n%s", diff)
	}
}

// TestMemoryComesFirst: if a checkpoint cannot be stored in the memory, it is not in the database either.
func TestMemoryComesFirst(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	// A file with this name is possible, but not the temporary file beside it.
	signer := newSigner(t, pool, ledger.IdentityConfig{Origin: strings.Repeat("x", 255-len(".checkpoint"))})
	if err := signer.Sign(t.Context()); !errors.Is(err, syscall.ENAMETOOLONG) {
		t.Errorf("signed without a memory: %v", err)
	}
	if sizes := chain(t, pool); len(sizes) != 0 {
		t.Errorf("checkpoints: %v", sizes)
	}
}

// copyMemory copies a memory and its key into another directory.
func copyMemory(t testing.TB, keyFile string) (copied string) {
	t.Helper()
	copied = filepath.Join(t.TempDir(), "ledger.key")
	text, err := os.ReadFile(keyFile)
	if err != nil {
		t.Fatal(err)
	}
	memory := os.DirFS(ledger.DefaultMemory(keyFile))
	err = errors.Join(os.WriteFile(copied, text, 0o600), os.CopyFS(ledger.DefaultMemory(copied), memory))
	if err != nil {
		t.Fatal(err)
	}
	return copied
}

// TestCopyOfMemoryIsRefused once the original has signed again, also after the database was set back to where it shows
// that.
func TestCopyOfMemoryIsRefused(t *testing.T) {
	t.Parallel()
	s := newSigned(t, testdb.New(t), filepath.Join(t.TempDir(), "ledger.key"))
	s.grow(5)
	sign(t, s.signer)
	copied := copyMemory(t, s.keyFile)
	s.grow(5)
	sign(t, s.signer)
	other := s.restored(copied)
	s.grow(2)
	sign(t, s.signer)
	other.wantRefused("a copy that has missed a checkpoint", ledger.ErrMemory)
	other.grow(3)
	other.wantRefused("the same, over another history", ledger.ErrMemory)
	again := newSigned(t, s.url, copied)
	again.wantRefused("the same, beside the original", ledger.ErrMemory)
}

// TestMemoryAndDatabaseSetBackTogether: a running process refuses to sign another history, although only the process
// knows the first one.
func TestMemoryAndDatabaseSetBackTogether(t *testing.T) {
	t.Parallel()
	s := newSigned(t, testdb.New(t), filepath.Join(t.TempDir(), "ledger.key"))
	s.grow(5)
	sign(t, s.signer)
	backup := copyMemory(t, s.keyFile)
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
	s.signer = newSigner(t, s.pool, ledger.IdentityConfig{KeyFile: s.keyFile})
	s.grow(3)
	sign(t, s.signer) // and published

	memory := ledger.DefaultMemory(s.keyFile)
	if err := errors.Join(os.RemoveAll(memory), os.CopyFS(memory, os.DirFS(ledger.DefaultMemory(backup)))); err != nil {
		t.Fatal(err)
	}
	current = now.url
	s.pool.Reset()
	s.wantRefused("a shorter tree", ledger.ErrForked)
	for _, what := range []string{"another one of the same size", "a longer one"} {
		now.grow(3)
		s.wantRefused(what, ledger.ErrForked)
	}
}

// TestReplicaWithoutMemory: a replica with the key but without the memory does not sign, also not in a database without
// any memory or origin.
func TestReplicaWithoutMemory(t *testing.T) {
	t.Parallel()
	empty := testdb.New(t)
	s := newSigned(t, testdb.Copy(t, empty), filepath.Join(t.TempDir(), "ledger.key"))
	s.grow(5)
	sign(t, s.signer)
	text := testdb.Must(os.ReadFile(s.keyFile))(t)
	copied := filepath.Join(t.TempDir(), "ledger.key")
	if err := os.WriteFile(copied, text, 0o600); err != nil {
		t.Fatal(err)
	}
	wantSilent := func(what string, pool *pgxpool.Pool, config ledger.IdentityConfig) {
		t.Helper()
		config.OriginPrefix = "x"
		id, err := ledger.Identify(t.Context(), pool, config)
		if err != nil {
			t.Fatal(err)
		}
		_, err = ledger.NewSigner(ledger.SignerConfig{Pool: pool, Identity: id})
		if err == nil || id.Reason == nil || len(id.VerifierKeys) != 0 {
			t.Errorf("%s: %v, %+v", what, err, id)
		}
	}
	wantSilent("without a memory", s.pool, ledger.IdentityConfig{KeyFile: copied})
	wantSilent("without a memory, and the database was set back to its beginning", openPool(t, testdb.Copy(t, empty)),
		ledger.IdentityConfig{Origin: testOrigin, KeyFile: copied})
	foreign := newSigned(t, testdb.Copy(t, empty), filepath.Join(t.TempDir(), "ledger.key"))
	config := ledger.IdentityConfig{Origin: testOrigin, KeyFile: copied, Memory: ledger.DefaultMemory(foreign.keyFile)}
	wantSilent("with the memory of another key", s.pool, config)
	wantSilent("with the memory of another key, and the database was set back to its beginning",
		openPool(t, testdb.Copy(t, empty)), config)

	// After the loss of a memory, a new one signs a new origin.
	if err := ledger.NewMemory(copied, ledger.DefaultMemory(copied)); err != nil {
		t.Fatal(err)
	}
	if err := ledger.NewMemory(copied, ledger.DefaultMemory(copied)); !errors.Is(err, os.ErrExist) {
		t.Errorf("a second new memory: %v", err)
	}
	wantSilent("with a new memory", s.pool, ledger.IdentityConfig{KeyFile: copied})
	next := newSigner(t, s.pool, ledger.IdentityConfig{KeyFile: copied, Origin: testOrigin + "-2"})
	sign(t, next)
	if c := latest(t, s.pool); c.Origin != testOrigin+"-2" {
		t.Errorf("the new memory signs %s", c.Origin)
	}
}

// TestOneMemoryForTwoLogs: a second database on a machine starts its own origin with the same key and memory.
func TestOneMemoryForTwoLogs(t *testing.T) {
	t.Parallel()
	keyFile := filepath.Join(t.TempDir(), "ledger.key")
	origins := map[string]bool{}
	for range 2 {
		url := testdb.NewEmpty(t) // databases of testdb.New share the log id of their template
		if err := migrations.Up(t.Context(), url); err != nil {
			t.Fatal(err)
		}
		pool := openPool(t, url)
		config := ledger.IdentityConfig{OriginPrefix: "h/ledger", KeyFile: keyFile}
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

// TestMemoryIsLocked: while one process signs with a memory, another one stands by.
func TestMemoryIsLocked(t *testing.T) {
	t.Parallel()
	s := newSigned(t, testdb.New(t), filepath.Join(t.TempDir(), "ledger.key"))
	unlock := testdb.Must(ledger.LockMemory(ledger.DefaultMemory(s.keyFile)))(t)
	s.wantRefused("a locked memory", ledger.ErrLocked)
	unlock()
	sign(t, s.signer)
	if diff := cmp.Diff([]int64{0}, chain(t, s.pool)); diff != "" {
		t.Errorf("checkpoints (-want +got):\n%s", diff)
	}
}

// TestReplicasSignAsOften as one replica, if they share its memory: a replica leaves a checkpoint that another one has
// just signed for an interval.
func TestReplicasSignAsOften(t *testing.T) {
	t.Parallel()
	s := newSigned(t, testdb.New(t), filepath.Join(t.TempDir(), "ledger.key"))
	s.grow(1)
	sign(t, s.signer)
	s.grow(1)
	pool := openPool(t, s.url)
	id := testdb.Must(ledger.Identify(t.Context(), pool, ledger.IdentityConfig{KeyFile: s.keyFile}))(t)
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
	wantChain := func(want ...int64) {
		t.Helper()
		if diff := cmp.Diff(want, chain(t, s.pool)); diff != "" {
			t.Errorf("checkpoints (-want +got):\n%s", diff)
		}
	}
	hourly := replica(time.Hour)
	attempt(hourly)
	wantChain(1)
	attempt(hourly) // the other replica has signed nothing since
	wantChain(1, 2)
	s.grow(1)
	testdb.Background(t, replica(time.Millisecond).Run)
	testdb.Eventually(t, "a replica signs after an interval", func() bool { return len(chain(t, s.pool)) == 3 })
	wantChain(1, 2, 3)
}

// oldLedger returns a database and a key from before memories: the last checkpoint is in the database and in a file
// beside the key.
func oldLedger(t testing.TB) *signed {
	t.Helper()
	s := newSigned(t, testdb.New(t), filepath.Join(t.TempDir(), "ledger.key"))
	s.grow(10)
	sign(t, s.signer)
	last := latest(t, s.pool).Note
	db := stdlib.OpenDBFromPool(s.pool)
	defer func() { _ = db.Close() }()
	steps, err := goose.NewProvider(goose.DialectPostgres, db, os.DirFS(filepath.FromSlash("../../migrations")))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := steps.DownTo(t.Context(), 19); err != nil { // migration 20 adds memories
		t.Fatal(err)
	}
	key, err := os.ReadFile(s.keyFile)
	if err != nil {
		t.Fatal(err)
	}
	_, private, _ := strings.Cut(string(key), "\n") // the first line names the memory
	err = errors.Join(os.WriteFile(s.keyFile, []byte(private), 0o600),
		os.WriteFile(s.keyFile+".checkpoint", last, 0o600), os.RemoveAll(ledger.DefaultMemory(s.keyFile)))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// upgrade opens a ledger from before memories.
func (s *signed) upgrade() (*ledger.Identity, *pgxpool.Pool) {
	s.t.Helper()
	if err := migrations.Up(s.t.Context(), s.url); err != nil {
		s.t.Fatal(err)
	}
	pool := openPool(s.t, s.url)
	id, err := ledger.Identify(s.t.Context(), pool, ledger.IdentityConfig{OriginPrefix: "x", KeyFile: s.keyFile})
	if err != nil {
		s.t.Fatal(err)
	}
	return id, pool
}

// TestLedgerFromBeforeMemories: only the replica that has its last checkpoint continues to sign.
func TestLedgerFromBeforeMemories(t *testing.T) {
	t.Parallel()
	s := oldLedger(t)
	behind := &signed{t: t, url: s.url, keyFile: filepath.Join(t.TempDir(), "ledger.key")}
	key := testdb.Must(os.ReadFile(s.keyFile))(t)
	if err := os.WriteFile(behind.keyFile, key, 0o600); err != nil {
		t.Fatal(err)
	}
	id, pool := behind.upgrade()
	if id.Reason == nil {
		t.Error("a replica signs that knows nothing of what was signed")
	}
	// As a replica of the previous version does.
	if _, err := pool.Exec(t.Context(), `INSERT INTO ledger_checkpoints (origin, tree_size, previous_size, root_hash, note, signed_at)
		VALUES ($1, 11, 10, sha256('x'), 'n', now())`, testOrigin); err == nil || !strings.Contains(err.Error(), "memory") {
		t.Errorf("a checkpoint that is in no memory: %v", err)
	}
	if id, pool = s.upgrade(); id.Reason != nil {
		t.Fatal(id.Reason)
	}
	quiet := slog.New(slog.DiscardHandler)
	signer := testdb.Must(ledger.NewSigner(ledger.SignerConfig{Pool: pool, Identity: id, Logger: quiet}))(t)
	sign(t, signer)
	appendEvents(t, pool, 1)
	startSealer(t, ledger.SealerConfig{Pool: pool})
	awaitSealed(t, pool)
	sign(t, signer)
	if diff := cmp.Diff([]int64{10, 11}, chain(t, pool)); diff != "" {
		t.Errorf("checkpoints (-want +got):\n%s", diff)
	}
	if id, _ = behind.upgrade(); id.Reason == nil {
		t.Error("a second memory signs")
	}
}
