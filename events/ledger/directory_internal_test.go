package ledger

import (
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"novelgate/internal/testdb"
)

// TestCreatedFilesStay is internal, because two processes that start rarely meet: of several that create a file at the
// same time, with different contents, one writes it, and all read what that one wrote.
func TestCreatedFilesStay(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const rounds, writers = 50, 8
	for round := range rounds {
		file := filepath.Join(dir, strconv.Itoa(round))
		var read [writers]string
		var wg sync.WaitGroup
		for i := range writers {
			wg.Go(func() {
				if err := createFile(file, []byte(strconv.Itoa(i))); err != nil {
					t.Error(err)
				}
				text, err := os.ReadFile(file)
				if err != nil {
					t.Error(err)
				}
				read[i] = string(text)
			})
		}
		wg.Wait()
		for _, text := range read {
			if len(text) != 1 || text != read[0] {
				t.Fatalf("they read %q", read)
			}
		}
	}
	if all := testdb.Must(os.ReadDir(dir))(t); len(all) != rounds {
		t.Errorf("%d files are left, want %d", len(all), rounds)
	}
}
