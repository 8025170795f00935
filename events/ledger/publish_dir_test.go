package ledger_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events/ledger"
	"novelgate/internal/testdb"
)

// newHistory signs a new history with checkpoints of the given sizes. The memory is new, but the key may be used by
// others: as after a restore that lost the memory.
func newHistory(t testing.TB, keyFile string, sizes ...int) *pgxpool.Pool {
	t.Helper()
	remembered := testdb.Must(filepath.Glob(filepath.Join(ledger.DefaultMemory(keyFile), "*.checkpoint")))(t)
	for _, file := range remembered {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	pool := newPool(t)
	signer := newSigner(t, pool, ledger.IdentityConfig{KeyFile: keyFile})
	startSealer(t, ledger.SealerConfig{Pool: pool})
	before := 0
	for _, size := range sizes {
		appendEvents(t, pool, size-before)
		awaitSealed(t, pool)
		sign(t, signer)
		before = size
	}
	return pool
}

// publishInto publishes all checkpoints of a database into a directory.
func publishInto(t testing.TB, pool *pgxpool.Pool, dir string) error {
	t.Helper()
	return newPublisher(t, pool, ledger.NewDirectory(pool, dir)).Publish(t.Context())
}

// wantRefused checks that publishing into a directory fails with a reason, and leaves the directory unchanged.
func wantRefused(t testing.TB, what string, pool *pgxpool.Pool, dir string, forked bool, says ...string) {
	t.Helper()
	published := files(t, dir)
	err := publishInto(t, pool, dir)
	if !errors.Is(err, ledger.ErrOtherHistory) || errors.Is(err, ledger.ErrForked) != forked {
		t.Errorf("%s: %v", what, err)
		return
	}
	for _, text := range says {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v does not say %q", what, err, text)
		}
	}
	if diff := cmp.Diff(published, files(t, dir)); diff != "" {
		t.Errorf("%s: the directory (-before +after):\n%s", what, diff)
	}
}

// files returns the content of every file below a directory.
func files(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		name, relErr := filepath.Rel(dir, path)
		all[filepath.ToSlash(name)] = string(text)
		return errors.Join(err, relErr)
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestDirectoryIsEvidence: a directory of one history refuses another. Nothing is replaced or added.
func TestDirectoryIsEvidence(t *testing.T) {
	t.Parallel()
	key, dir := filepath.Join(t.TempDir(), "ledger.key"), t.TempDir()
	first := newHistory(t, key, 7, 10)
	if err := publishInto(t, first, dir); err != nil {
		t.Fatal(err)
	}
	newest := filepath.Join(dir, "checkpoint")
	for name, sizes := range map[string][]int{
		"it is longer": {20}, "it is as long": {10}, "it is shorter": {5}, "nothing of it is signed": nil,
	} {
		wantRefused(t, name, newHistory(t, key, sizes...), dir, true, newest)
	}
	if err := publishInto(t, first, dir); err != nil {
		t.Errorf("the history itself is refused: %v", err)
	}
	// A newest checkpoint without a signature of the ledger proves nothing about its history.
	wantRefused(t, "a stranger's", newHistory(t, filepath.Join(t.TempDir(), "other.key"), 10), dir, false, newest)
	// Also without the newest checkpoint.
	if err := os.Remove(newest); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, "another checkpoint of 10 entries", newHistory(t, key, 10), dir, false,
		filepath.Join(dir, "checkpoints", "010"))
}

// TestDirectoryOfAnotherOrigin: a directory keeps the checkpoints of a former origin. The new origin needs another
// directory.
func TestDirectoryOfAnotherOrigin(t *testing.T) {
	t.Parallel()
	key, dir, other := filepath.Join(t.TempDir(), "ledger.key"), t.TempDir(), t.TempDir()
	pool := newHistory(t, key, 7, 10)
	if err := publishInto(t, pool, dir); err != nil {
		t.Fatal(err)
	}
	const second = "ledger.example/second"
	sign(t, newSigner(t, pool, ledger.IdentityConfig{KeyFile: key, Origin: second}))
	wantRefused(t, "into the directory of the old origin", pool, dir, false, testOrigin, "--ledger-publish-dir")
	if err := publishInto(t, pool, other); err != nil {
		t.Errorf("into another directory: %v", err)
	}
	if text := files(t, other)["checkpoints/010"]; !strings.HasPrefix(text, second+"\n10\n") {
		t.Errorf("checkpoint of the new origin: %q", text)
	}
}

// TestDirectoryDoesNotGoBack: checkpoints of a replica that is behind are added, and the newest one stays.
func TestDirectoryDoesNotGoBack(t *testing.T) {
	t.Parallel()
	key, dir := filepath.Join(t.TempDir(), "ledger.key"), t.TempDir()
	pool := newHistory(t, key, 7)
	behind := latest(t, pool)
	appendEvents(t, pool, 3)
	awaitSealed(t, pool)
	sign(t, newSigner(t, pool, ledger.IdentityConfig{KeyFile: key}))
	if err := publishInto(t, pool, dir); err != nil {
		t.Fatal(err)
	}
	published := files(t, dir)
	if err := ledger.NewDirectory(pool, dir).Take(t.Context(), behind); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(published, files(t, dir)); diff != "" {
		t.Errorf("the directory (-before +after):\n%s", diff)
	}
}

// TestDirectoryGoesOnAfterACrash: the file of a checkpoint exists, but the newest checkpoint is still the previous one.
func TestDirectoryGoesOnAfterACrash(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pool := newHistory(t, filepath.Join(t.TempDir(), "ledger.key"), 7, 10)
	if err := publishInto(t, pool, dir); err != nil {
		t.Fatal(err)
	}
	published := files(t, dir)
	if err := os.WriteFile(filepath.Join(dir, "checkpoint"), []byte(published["checkpoints/007"]), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := publishInto(t, pool, dir); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(published, files(t, dir)); diff != "" {
		t.Errorf("the directory (-want +got):\n%s", diff)
	}
}

// TestPublisherTellsThatItIsRefused: the log and the metrics show a refusal until publishing works.
func TestPublisherTellsThatItIsRefused(t *testing.T) {
	t.Parallel()
	key, dir := filepath.Join(t.TempDir(), "ledger.key"), t.TempDir()
	if err := publishInto(t, newHistory(t, key, 7), dir); err != nil {
		t.Fatal(err)
	}
	pool := newHistory(t, key, 10)
	var lines testdb.Log
	metrics := ledger.NewMetrics()
	publisher := ledger.NewPublisher(ledger.PublisherConfig{
		Pool: pool, Origin: testOrigin, Target: ledger.NewDirectory(pool, dir), Interval: time.Millisecond, Metrics: metrics,
		Logger: lines.Logger(),
	})
	refused := func() float64 { return gauge(t, metrics, "novelgate_ledger_publishing_refused") }
	if got := refused(); got != 0 {
		t.Errorf("%v before it was", got)
	}
	testdb.Background(t, publisher.Run)
	testdb.Eventually(t, "the metric says that it is refused", func() bool { return refused() == 1 })
	testdb.Eventually(t, "the log says why, as an error", func() bool {
		return strings.Contains(lines.String(), "level=ERROR") && strings.Contains(lines.String(), ledger.ErrForked.Error())
	})
	if err := os.Rename(dir, dir+".kept"); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { // the publisher may have made it meanwhile
		t.Fatal(err)
	}
	testdb.Eventually(t, "publishing goes on", func() bool { return refused() == 0 && files(t, dir)["checkpoint"] != "" })
}
