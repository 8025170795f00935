package ledger_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"novelgate/events/ledger"
	"novelgate/internal/testdb"
)

// TestMemoryMoves: a memory is retired only with its newest checkpoint, and signs nothing then. Elsewhere it continues
// from that checkpoint, and is never set back.
func TestMemoryMoves(t *testing.T) {
	t.Parallel()
	pool, dir := newSealedPool(t, 5), t.TempDir()
	startSealer(t, ledger.SealerConfig{Pool: pool})
	key, memory := filepath.Join(dir, "ledger.key"), filepath.Join(dir, "ledger.key.memory")
	signer := newSigner(t, pool, ledger.IdentityConfig{KeyFile: key})
	sign(t, signer)
	older := latest(t, pool)
	appendEvents(t, pool, 3)
	awaitSealed(t, pool)
	sign(t, signer)
	last := latest(t, pool)
	to := ledger.Retirement{Promotion: uuid.New(), Successor: "https://mirror.example"}

	if _, err := ledger.Retire(key, memory, older, to); !errors.Is(err, ledger.ErrMemory) {
		t.Errorf("retired with an older checkpoint: %v", err)
	}
	signing := testdb.Must(ledger.Retire(key, memory, last, to))(t)
	again, err := ledger.Retire(key, memory, last, to)
	if err != nil || again.Memory != signing.Memory || again.Keys != signing.Keys {
		t.Errorf("retired again: %v", err)
	}
	other := ledger.Retirement{Promotion: uuid.New(), Successor: "https://other.example"}
	if _, err := ledger.Retire(key, memory, last, other); !errors.Is(err, ledger.ErrMemory) {
		t.Errorf("retired for another mirror: %v", err)
	}
	if r, ok, err := ledger.ReadRetirement(memory); !ok || err != nil || r.Promotion != to.Promotion ||
		r.Successor != to.Successor {
		t.Errorf("the retirement is %+v %v %v", r, ok, err)
	}
	if err := signer.Sign(t.Context()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a retired memory signs: %v", err)
	}

	there := t.TempDir()
	newKey, newMemory := filepath.Join(there, "ledger.key"), filepath.Join(there, "memory")
	for range 2 {
		if err := signing.Place(newKey, newMemory); err != nil {
			t.Fatal(err)
		}
	}
	remembered := onlyCheckpoint(t, newMemory)
	if got, err := os.ReadFile(remembered); err != nil || string(got) != string(last.Note) {
		t.Errorf("the new memory has %q, %v", got, err)
	}
	back := ledger.Signing{Keys: signing.Keys, Memory: signing.Memory, Last: older.Note}
	if err := back.Place(newKey, newMemory); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(remembered); err != nil || string(got) != string(last.Note) {
		t.Errorf("the new memory was set back to %q, %v", got, err)
	}
	// A memory that returns is not retired any more.
	testdb.Must(ledger.Retire(newKey, newMemory, last, other))(t)
	if err := signing.Place(newKey, newMemory); err != nil {
		t.Fatal(err)
	}
	if _, retired, err := ledger.ReadRetirement(newMemory); retired || err != nil {
		t.Errorf("the memory that has returned is retired: %v", err)
	}
	if err := os.WriteFile(newKey, []byte("another\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := signing.Place(newKey, newMemory); err == nil {
		t.Error("another key was replaced")
	}
	forged := ledger.Signing{Keys: signing.Keys, Memory: signing.Memory, Last: append([]byte("x"), last.Note...)}
	if _, err := forged.Verify(); err == nil {
		t.Error("a forged checkpoint is verified")
	}

	if err := signing.Reinstate(key, memory, other.Promotion); !errors.Is(err, ledger.ErrMemory) {
		t.Errorf("reinstated after another handover: %v", err)
	}
	for range 2 {
		if err := signing.Reinstate(key, memory, to.Promotion); err != nil {
			t.Fatal(err)
		}
	}
	another := ledger.Signing{Keys: signing.Keys, Memory: uuid.New(), Last: last.Note}
	if err := another.Reinstate(key, memory, to.Promotion); !errors.Is(err, ledger.ErrMemory) {
		t.Errorf("another memory was reinstated: %v", err)
	}
	appendEvents(t, pool, 1)
	awaitSealed(t, pool)
	sign(t, signer)
	if now := latest(t, pool); now.Tree.N != last.Tree.N+1 {
		t.Errorf("after the return %d entries are signed", now.Tree.N)
	}
}

// TestPlaceBesideAnotherMemory: where another memory is, nothing is placed.
func TestPlaceBesideAnotherMemory(t *testing.T) {
	t.Parallel()
	pool, dir := newSealedPool(t, 5), t.TempDir()
	key := filepath.Join(dir, "ledger.key")
	sign(t, newSigner(t, pool, ledger.IdentityConfig{KeyFile: key}))
	to := ledger.Retirement{Promotion: uuid.New(), Successor: "https://mirror.example"}
	signing := testdb.Must(ledger.Retire(key, ledger.DefaultMemory(key), latest(t, pool), to))(t)
	there := t.TempDir()
	newKey, newMemory := filepath.Join(there, "keys", "ledger.key"), filepath.Join(there, "memory")
	other := newSigner(t, newPool(t), ledger.IdentityConfig{KeyFile: filepath.Join(there, "other.key"), Memory: newMemory})
	sign(t, other)
	before := files(t, there)
	if err := signing.Place(newKey, newMemory); !errors.Is(err, ledger.ErrMemory) {
		t.Errorf("placed beside another memory: %v", err)
	}
	if diff := cmp.Diff(before, files(t, there)); diff != "" {
		t.Errorf("files (-before +after):\n%s", diff)
	}
}

// TestKeyAfterRetirement: a new origin can be signed where a memory was handed over, whatever was deleted since.
func TestKeyAfterRetirement(t *testing.T) {
	t.Parallel()
	pool := newSealedPool(t, 5)
	startSealer(t, ledger.SealerConfig{Pool: pool})
	dir := t.TempDir()
	sign(t, newSigner(t, pool, ledger.IdentityConfig{KeyFile: filepath.Join(dir, "ledger.key")}))
	last := latest(t, pool)
	for name, change := range map[string]func(key, memory string) error{
		"nothing":    func(string, string) error { return nil },
		"the key":    func(key, _ string) error { return os.Remove(key) },
		"the memory": func(_, memory string) error { return os.RemoveAll(memory) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key := filepath.Join(t.TempDir(), "ledger.key")
			memory := ledger.DefaultMemory(key)
			if err := os.CopyFS(filepath.Dir(key), os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			to := ledger.Retirement{Promotion: uuid.New(), Successor: "https://mirror.example"}
			testdb.Must(ledger.Retire(key, memory, last, to))(t)
			if err := ledger.NewMemory(key, memory); !errors.Is(err, ledger.ErrMemory) {
				t.Errorf("another memory beside the retired one: %v", err)
			}
			if err := change(key, memory); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := ledger.EnsureKey(key, memory, "ledger.example/next"); err != nil {
					t.Fatal(err)
				}
			}
			if _, retired, err := ledger.ReadRetirement(memory); retired || err != nil {
				t.Errorf("it is retired: %v", err)
			}
			id, err := os.ReadFile(filepath.Join(memory, "id"))
			if err != nil || len(id) == 0 {
				t.Errorf("it has the id %q, %v", id, err)
			}
		})
	}
}

// onlyCheckpoint returns the file of the one origin in a memory.
func onlyCheckpoint(t testing.TB, memory string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(memory, "*.checkpoint"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	return files[0]
}
