package bundle_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"novelgate/events/ledger/bundle"
	"novelgate/events/ledger/ledgertest"
	"novelgate/internal/database"
)

// watched remembers the context of the last statement.
type watched struct {
	database.Querier
	last atomic.Pointer[context.Context]
}

func (w *watched) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	w.last.Store(&ctx)
	return w.Querier.Query(ctx, sql, args...)
}

// TestExportEndsWithTheDisk: once files cannot be put on the disk, nothing more is read and written.
func TestExportEndsWithTheDisk(t *testing.T) {
	t.Parallel()
	l := ledgertest.New(t)
	l.Append(20_000)
	dir := filepath.Join(t.TempDir(), "bundle")
	db := &watched{Querier: l.Pool}
	x := &bundle.Export{DB: db, Dir: dir, Now: time.Now, Workers: 1, Progress: func(done, _ int64) {
		switch done {
		case bundle.EventsPerFile:
			// What is written to the next file is taken, and cannot be put on a disk.
			if err := os.Symlink(os.DevNull, filepath.Join(dir, "events", "001.ndjson.part")); err != nil {
				t.Error(err)
			}
		case 2 * bundle.EventsPerFile:
			select {
			case <-(*db.last.Load()).Done():
			case <-time.After(time.Minute):
				t.Error("nobody has told the writers")
			}
		}
	}}
	x.SettleEvery(1)
	if _, err := x.Run(t.Context()); !errors.Is(err, syscall.EINVAL) || errors.Is(err, context.Canceled) {
		t.Errorf("without a disk: %v", err)
	}
	for _, name := range []string{"002.ndjson", "002.ndjson.part"} {
		if _, err := os.Stat(filepath.Join(dir, "events", name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("after the disk had failed %s was written: %v", name, err)
		}
	}
}
