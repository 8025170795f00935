package ledger_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"novelgate/events/ledger"
	"novelgate/internal/testdb"
)

// TestCreatedFilesStay: of several concurrent calls that create a file with different contents, one writes it, and it
// keeps its content.
func TestCreatedFilesStay(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const rounds, writers = 50, 8
	for round := range rounds {
		file := filepath.Join(dir, strconv.Itoa(round))
		var failed [writers]error
		var wg sync.WaitGroup
		for i := range writers {
			wg.Go(func() { failed[i] = ledger.CreateFile(file, []byte(strconv.Itoa(i))) })
		}
		wg.Wait()
		if err := errors.Join(failed[:]...); err != nil {
			t.Fatal(err)
		}
		text := testdb.Must(os.ReadFile(file))(t)
		if err := ledger.CreateFile(file, []byte("later")); err != nil {
			t.Fatal(err)
		}
		if again := testdb.Must(os.ReadFile(file))(t); string(again) != string(text) || len(text) != 1 {
			t.Errorf("%q, and then %q", text, again)
		}
	}
	if all := testdb.Must(os.ReadDir(dir))(t); len(all) != rounds {
		t.Errorf("%d files are left, want %d", len(all), rounds)
	}
}

// TestFilesAreCreatedWithoutLinks: a directory cannot be linked, like files on some file systems.
func TestFilesAreCreatedWithoutLinks(t *testing.T) {
	t.Parallel()
	from, to := filepath.Join(t.TempDir(), "from"), filepath.Join(t.TempDir(), "to")
	if err := os.Mkdir(from, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := ledger.LinkOrRename(from, to); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(to); err != nil {
		t.Error(err)
	}
}
