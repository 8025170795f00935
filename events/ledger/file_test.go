package ledger_test

import (
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"novelgate/events/ledger"
	"novelgate/internal/testdb"
)

// TestCreatedFilesStay: of several concurrent calls that create a file with different contents, one succeeds, and the
// file keeps its content.
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
		text := testdb.Must(os.ReadFile(file))(t)
		for i, err := range failed {
			if wrote := string(text) == strconv.Itoa(i); wrote != (err == nil) {
				t.Errorf("writer %d of %q: %v", i, text, err)
			}
		}
	}
	if all := files(t, dir); len(all) != rounds {
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
