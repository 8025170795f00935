package ledger_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"novelgate/events/ledger"
	"novelgate/internal/testdb"
)

// newHistory signs a history of its own, with checkpoints of the given sizes. The signer remembers no other one, though
// the key may be that of others: as after a restore by which the memory was lost.
func newHistory(t testing.TB, keyFile string, sizes ...int) *pgxpool.Pool {
	t.Helper()
	remembered, err := filepath.Glob(filepath.Join(ledger.DefaultMemory(keyFile), "*.checkpoint"))
	if err != nil {
		t.Fatal(err)
	}
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

// publishInto publishes all of a database into a directory.
func publishInto(t testing.TB, pool *pgxpool.Pool, dir string) error {
	t.Helper()
	return newPublisher(t, pool, ledger.NewDirectory(pool, dir)).Publish(t.Context())
}

// files has the content of every file below a directory.
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

// TestDirectoryRefusesAnotherHistory: what was published of one history shows that another one under the same name is
// another one, and nothing is added to it.
func TestDirectoryRefusesAnotherHistory(t *testing.T) {
	t.Parallel()
	key, dir := filepath.Join(t.TempDir(), "ledger.key"), t.TempDir()
	first := newHistory(t, key, 7, 10)
	if err := publishInto(t, first, dir); err != nil {
		t.Fatal(err)
	}
	published := files(t, dir)
	for name, sizes := range map[string][]int{
		"it is longer":            {20},
		"it is as long":           {10},
		"it is shorter":           {5},
		"nothing of it is signed": nil,
	} {
		err := publishInto(t, newHistory(t, key, sizes...), dir)
		if !errors.Is(err, ledger.ErrForked) || !errors.Is(err, ledger.ErrPublished) ||
			!strings.Contains(err.Error(), filepath.Join(dir, "checkpoint")) {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(published, files(t, dir)); diff != "" {
			t.Errorf("%s: the directory (-before +after):\n%s", name, diff)
		}
	}
	if err := publishInto(t, first, dir); err != nil {
		t.Errorf("the history itself is refused: %v", err)
	}
}

// TestDirectoryRefusesAnotherOrigin: checkpoints of an origin that was left stay as they are. Another directory takes
// those of the new one.
func TestDirectoryRefusesAnotherOrigin(t *testing.T) {
	t.Parallel()
	key, dir := filepath.Join(t.TempDir(), "ledger.key"), t.TempDir()
	pool := newHistory(t, key, 7, 10)
	if err := publishInto(t, pool, dir); err != nil {
		t.Fatal(err)
	}
	published := files(t, dir)
	const second = "ledger.example/second"
	sign(t, newSigner(t, pool, ledger.IdentityConfig{KeyFile: key, Origin: second}))
	publish := func(dir string) error {
		publisher := ledger.NewPublisher(ledger.PublisherConfig{
			Pool: pool, Origin: second, Target: ledger.NewDirectory(pool, dir),
		})
		return publisher.Publish(t.Context())
	}
	err := publish(dir)
	if !errors.Is(err, ledger.ErrPublished) || !strings.Contains(err.Error(), testOrigin) ||
		!strings.Contains(err.Error(), "--ledger-publish-dir") {
		t.Errorf("into the directory of the old origin: %v", err)
	}
	if diff := cmp.Diff(published, files(t, dir)); diff != "" {
		t.Errorf("the directory (-before +after):\n%s", diff)
	}
	other := t.TempDir()
	if err := publish(other); err != nil {
		t.Errorf("into another directory: %v", err)
	}
	if text := files(t, other)["checkpoints/010"]; !strings.HasPrefix(text, second+"\n10\n") {
		t.Errorf("checkpoint of the new origin: %q", text)
	}
}

// TestDirectoryReplacesNoCheckpoint: a file that is there keeps its content, even if the newest checkpoint says nothing
// of it.
func TestDirectoryReplacesNoCheckpoint(t *testing.T) {
	t.Parallel()
	key, dir := filepath.Join(t.TempDir(), "ledger.key"), t.TempDir()
	if err := publishInto(t, newHistory(t, key, 7, 10), dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "checkpoint")); err != nil {
		t.Fatal(err)
	}
	published := files(t, dir)
	err := publishInto(t, newHistory(t, key, 10), dir)
	if !errors.Is(err, ledger.ErrPublished) || !strings.Contains(err.Error(), filepath.Join(dir, "checkpoints", "010")) {
		t.Errorf("another checkpoint of 10 entries: %v", err)
	}
	if diff := cmp.Diff(published, files(t, dir)); diff != "" {
		t.Errorf("the directory (-before +after):\n%s", diff)
	}
}

// TestDirectoryDoesNotBelieveStrangers: a newest checkpoint that was not signed with a key of the ledger says nothing
// about its history.
func TestDirectoryDoesNotBelieveStrangers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := publishInto(t, newHistory(t, filepath.Join(t.TempDir(), "stranger.key"), 7), dir); err != nil {
		t.Fatal(err)
	}
	published := files(t, dir)
	err := publishInto(t, newHistory(t, filepath.Join(t.TempDir(), "ledger.key"), 10), dir)
	if !errors.Is(err, ledger.ErrPublished) || errors.Is(err, ledger.ErrForked) ||
		!strings.Contains(err.Error(), filepath.Join(dir, "checkpoint")) {
		t.Errorf("into the directory of somebody else: %v", err)
	}
	if diff := cmp.Diff(published, files(t, dir)); diff != "" {
		t.Errorf("the directory (-before +after):\n%s", diff)
	}
}

// TestReplicasPublishTogether: several replicas share a directory while the ledger grows; that one is behind another
// for a moment is no fork.
func TestReplicasPublishTogether(t *testing.T) {
	t.Parallel()
	key, dir := filepath.Join(t.TempDir(), "ledger.key"), t.TempDir()
	pool := newHistory(t, key, 1)
	signer := newSigner(t, pool, ledger.IdentityConfig{KeyFile: key})
	done := make(chan struct{})
	var replicas sync.WaitGroup
	for range 3 {
		publisher := newPublisher(t, pool, ledger.NewDirectory(pool, dir))
		replicas.Go(func() {
			for last := false; !last; {
				select {
				case <-done:
					last = true
				default:
				}
				if err := publisher.Publish(t.Context()); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	const size = 12
	for n := int64(2); n <= size; n++ {
		appendEvents(t, pool, 1)
		testdb.Eventually(t, "the event is sealed", func() bool { return treeSize(t, pool) == n })
		sign(t, signer)
	}
	close(done)
	replicas.Wait()
	got := files(t, dir)
	if len(got) != size+1 {
		t.Errorf("%d files of %d checkpoints", len(got), size)
	}
	if string(latest(t, pool).Note) != got["checkpoint"] {
		t.Errorf("the newest checkpoint is\n%s", got["checkpoint"])
	}
}

// TestDirectoryDoesNotGoBack: what a replica that is behind comes with is there, and the newest checkpoint stays.
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

// TestDirectoryGoesOnAfterACrash: a checkpoint is in its file, and the newest one is still that before it.
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

// TestPublisherTellsThatItIsRefused in the log and in the metrics, until it goes on.
func TestPublisherTellsThatItIsRefused(t *testing.T) {
	t.Parallel()
	key, dir := filepath.Join(t.TempDir(), "ledger.key"), t.TempDir()
	if err := publishInto(t, newHistory(t, key, 7), dir); err != nil {
		t.Fatal(err)
	}
	pool := newHistory(t, key, 10)
	var lines logged
	metrics := ledger.NewMetrics()
	publisher := ledger.NewPublisher(ledger.PublisherConfig{
		Pool: pool, Origin: testOrigin, Target: ledger.NewDirectory(pool, dir), Interval: time.Millisecond, Metrics: metrics,
		Logger: lines.logger(),
	})
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics)
	refused := func() float64 {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			if family.GetName() == "novelgate_ledger_publishing_refused" &&
				family.GetMetric()[0].GetLabel()[0].GetValue() == dir {
				return family.GetMetric()[0].GetGauge().GetValue()
			}
		}
		t.Fatal("no metric says whether publishing is refused")
		return 0
	}
	if got := refused(); got != 0 {
		t.Errorf("%v before it was", got)
	}
	run(t, publisher.Run)
	testdb.Eventually(t, "the metric says that it is refused", func() bool { return refused() == 1 })
	testdb.Eventually(t, "the log says why, as an error", func() bool {
		return strings.Contains(lines.String(), "level=ERROR") && strings.Contains(lines.String(), ledger.ErrForked.Error())
	})
	if err := os.Rename(dir, dir+".kept"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	testdb.Eventually(t, "publishing goes on", func() bool { return refused() == 0 && files(t, dir)["checkpoint"] != "" })
}
