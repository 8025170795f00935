package audit_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"novelgate/events/ledger"
	"novelgate/events/ledger/audit"
	"novelgate/events/ledger/ledgertest"
	"novelgate/internal/database"
	"novelgate/internal/testdb"
)

func exportTo(t testing.TB, l *ledgertest.Ledger, dir string, from int64) audit.Manifest {
	t.Helper()
	return testdb.Must((&audit.Export{DB: l.Pool, Dir: dir, From: from, Now: time.Now}).Run(t.Context()))(t)
}

// files returns the files of a directory by name, without the time in the manifest. What is personal is in them, so
// only their owner may read them.
func files(t testing.TB, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if info, err := entry.Info(); path != dir && (err != nil || info.Mode().Perm()&0o077 != 0) {
			t.Errorf("%s has the mode %v, %v", path, info.Mode(), err)
		}
		if entry.IsDir() {
			return nil
		}
		text, err := os.ReadFile(path)
		if name := strings.TrimPrefix(path, dir); name != "/manifest.json" {
			found[name] = string(text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestExportGrows: a bundle that was exported in steps equals one that was exported at once.
func TestExportGrows(t *testing.T) {
	t.Parallel()
	l := ledgertest.New(t)
	grown := filepath.Join(t.TempDir(), "grown")
	for _, n := range []int{3, 297, 3796, 1, 4200, 5000} {
		l.Append(n)
		if m := exportTo(t, l, grown, 0); m.Events != l.Sign() || m.FirstLogIndex != 0 || m.LastLogIndex != m.Events-1 ||
			!m.Complete {
			t.Fatalf("manifest: %+v", m)
		} else if m.Events < 5000 { // also when the bundle grew within its last tiles
			fresh := t.TempDir()
			exportTo(t, l, fresh, 0)
			if diff := cmp.Diff(files(t, fresh), files(t, grown)); diff != "" {
				t.Fatalf("%d events (-at once +in steps):\n%.2000s", m.Events, diff)
			}
		}
	}
	once := filepath.Join(t.TempDir(), "once")
	exportTo(t, l, once, 0)
	if diff := cmp.Diff(files(t, once), files(t, grown)); diff != "" {
		t.Errorf("(-at once +in steps):\n%.2000s", diff)
	}
	exportTo(t, l, once, 0) // nothing is new
	if diff := cmp.Diff(files(t, once), files(t, grown)); diff != "" {
		t.Errorf("after another export (-at once +in steps):\n%.2000s", diff)
	}
}

// TestExportGoesOn: after an interruption, the same call completes the export and keeps complete files.
func TestExportGoesOn(t *testing.T) {
	t.Parallel()
	l := ledgertest.New(t)
	l.Append(20_000)
	dir := filepath.Join(t.TempDir(), "bundle")
	ctx, cancel := context.WithCancel(t.Context())
	_, err := (&audit.Export{DB: l.Pool, Dir: dir, Now: time.Now, Workers: 1, Progress: func(done, _ int64) {
		if done >= 2*4096 {
			cancel()
		}
	}}).Run(ctx)
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("interrupted: %v", err)
	}
	if _, err := audit.OpenBundles([]string{dir}); !errors.Is(err, audit.ErrNoBundle) {
		t.Errorf("an export that has not ended is opened: %v", err)
	}
	mark := filepath.Join(dir, "events", "000.ndjson")
	before := testdb.Must(os.Stat(mark))(t)
	exportTo(t, l, dir, 0)
	if after, err := os.Stat(mark); err != nil || !os.SameFile(before, after) || !before.ModTime().Equal(after.ModTime()) {
		t.Errorf("the first file was written again: %v", err)
	}
	once := filepath.Join(t.TempDir(), "once")
	exportTo(t, l, once, 0)
	if diff := cmp.Diff(files(t, once), files(t, dir)); diff != "" {
		t.Errorf("(-at once +resumed):\n%.2000s", diff)
	}
}

// TestExportThatFails: a failed export leaves no complete manifest, and the same call continues.
func TestExportThatFails(t *testing.T) {
	t.Parallel()
	testdb.SkipShort(t)
	l := ledgertest.New(t)
	l.Append(20_000)
	once := filepath.Join(t.TempDir(), "once")
	exportTo(t, l, once, 0)
	for obstacle, vouched := range map[string]string{
		"tile/entries/040":       "events/002.ndjson", // whose chunk begins with entry bundle 32
		"tile/0/078.p/32":        "events/004.p/3616.ndjson",
		"tile/1/000.p/78":        "key",               // written after all chunks
		"checkpoint.part":        "events/000.ndjson", // without it the history could not be identified
		"events/003.ndjson.part": "events/003.ndjson",
	} {
		dir := filepath.Join(t.TempDir(), "bundle")
		text := testdb.Must(os.ReadFile(filepath.Join(once, "manifest.json")))(t)
		testdb.NoError(t, os.MkdirAll(filepath.Join(dir, obstacle), 0o700))
		// An interrupted export continues.
		text = bytes.Replace(text, []byte(`"complete": true`), []byte(`"complete": false`), 1)
		testdb.NoError(t, os.WriteFile(filepath.Join(dir, "manifest.json"), text, 0o600))
		if _, err := (&audit.Export{DB: l.Pool, Dir: dir, Now: time.Now}).Run(t.Context()); err == nil {
			t.Errorf("%s could be written", obstacle)
		}
		if _, err := os.Stat(filepath.Join(dir, vouched)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is there without %s: %v", vouched, obstacle, err)
		}
		if _, err := audit.OpenBundles([]string{dir}); !errors.Is(err, audit.ErrNoBundle) {
			t.Errorf("without %s the bundle is opened: %v", obstacle, err)
		}
		testdb.NoError(t, os.Remove(filepath.Join(dir, obstacle)))
		exportTo(t, l, dir, 0)
		if diff := cmp.Diff(files(t, once), files(t, dir)); diff != "" {
			t.Errorf("%s: (-at once +after a failure):\n%.2000s", obstacle, diff)
		}
	}
}

// TestEventsComeBack: a bundle has the stored bytes.
func TestEventsComeBack(t *testing.T) {
	t.Parallel()
	l := ledgertest.New(t)
	l.Append(50)
	l.Exec(`INSERT INTO events (log_index, stream_type, stream_id, stream_version, event_id, event_source, event_type, data, personal, salt, actor, batch_id)
		VALUES (50, 'novel', gen_random_uuid(), 1, e'k "\\\\ \u2028\u0001', 's', 'novel.approved.v1',
			e'{ "a" :  "\\\\u0041\u00e9\u2028<>&",\n\t"b":1.0e+3 }', '"x"', NULL, 'test', gen_random_uuid())`)
	l.Append(5000)
	l.Sign()
	dir := filepath.Join(t.TempDir(), "bundle")
	m := exportTo(t, l, dir, 0)
	database, opened := audit.NewDatabase(l.Pool), bundles(t, dir)
	for first := int64(0); first < m.Size; first += m.EventsPerFile {
		count := int(min(m.EventsPerFile, m.Size-first))
		stored := testdb.Must(database.Events(t.Context(), first, count, m.Size))(t)
		read, err := opened.Events(t.Context(), first, count, m.Size)
		if err != nil || len(read) != len(stored) {
			t.Fatalf("%d events of %d: %v", len(read), len(stored), err)
		}
		for i := range read {
			want, wantErr := ledger.AppendEntry(nil, &stored[i].Row)
			got, gotErr := ledger.AppendEntry(nil, &read[i].Row)
			if wantErr != nil || gotErr != nil || !bytes.Equal(want, got) || read[i].LogIndex != first+int64(i) {
				t.Fatalf("event %d is %+v, want %+v", first+int64(i), read[i], stored[i])
			}
			if !bytes.Equal(stored[i].Data, read[i].Data) {
				t.Fatal(cmp.Diff(stored[i].Data, read[i].Data))
			}
		}
	}
}

// TestExportKeepsOtherFiles: a bundle is evidence. The history of another ledger with the same origin does not replace
// it, complete or not, and an export from another event on does not continue it. Other files are not touched either.
func TestExportKeepsOtherFiles(t *testing.T) {
	t.Parallel()
	theirs, ours := ledgertest.New(t), ledgertest.New(t)
	theirs.Append(5000)
	ours.Append(9000)
	for name, c := range map[string]struct {
		prepare func(dir string)
		from    int64
		want    error
	}{
		"whole": {func(dir string) { exportTo(t, theirs, dir, 0) }, 0, audit.ErrOtherBundle},
		"interrupted": {func(dir string) {
			ctx, cancel := context.WithCancel(t.Context())
			x := audit.Export{DB: theirs.Pool, Dir: dir, Now: time.Now, Workers: 1, Progress: func(int64, int64) { cancel() }}
			if _, err := x.Run(ctx); !errors.Is(err, context.Canceled) {
				t.Fatalf("interrupted: %v", err)
			}
		}, 0, audit.ErrOtherBundle},
		"continuing":                    {func(dir string) { exportTo(t, theirs, dir, 4999) }, 4999, audit.ErrOtherBundle},
		"of the same ledger, from 0 on": {func(dir string) { exportTo(t, ours, dir, 0) }, 4999, audit.ErrOtherBundle},
		"none": {func(dir string) {
			testdb.NoError(t, errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, "thesis.txt"), nil, 0o600)))
		}, 0, audit.ErrOccupied},
		"without its checkpoint": {func(dir string) {
			exportTo(t, theirs, dir, 0)
			testdb.NoError(t, os.Remove(filepath.Join(dir, "checkpoint")))
		}, 0, audit.ErrOtherBundle},
	} {
		dir := filepath.Join(t.TempDir(), "bundle")
		c.prepare(dir)
		before := files(t, dir)
		_, err := (&audit.Export{DB: ours.Pool, Dir: dir, From: c.from, Now: time.Now}).Run(t.Context())
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if diff := cmp.Diff(before, files(t, dir)); diff != "" {
			t.Errorf("%s was changed (-before +after):\n%.2000s", name, diff)
		}
	}
}

// watched keeps the context of the last statement.
type watched struct {
	database.Querier
	last atomic.Pointer[context.Context]
}

func (w *watched) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	w.last.Store(&ctx)
	return w.Querier.Query(ctx, sql, args...)
}

// TestExportEndsWithTheDisk: when files cannot be synced, the export stops reading and writing.
func TestExportEndsWithTheDisk(t *testing.T) {
	t.Parallel()
	l := ledgertest.New(t)
	l.Append(20_000)
	dir := filepath.Join(t.TempDir(), "bundle")
	db := &watched{Querier: l.Pool}
	x := &audit.Export{DB: db, Dir: dir, Now: time.Now, Workers: 1, Progress: func(done, _ int64) {
		switch done {
		case 4096:
			// The next file can be written, but not synced.
			if err := os.Symlink(os.DevNull, filepath.Join(dir, "events", "001.ndjson.part")); err != nil {
				t.Error(err)
			}
		case 8192:
			select {
			case <-(*db.last.Load()).Done():
			case <-time.After(time.Minute):
				t.Error("nobody has told the writers")
			}
		}
	}}
	if _, err := x.Run(t.Context()); !errors.Is(err, syscall.EINVAL) || errors.Is(err, context.Canceled) {
		t.Errorf("without a disk: %v", err)
	}
	for _, name := range []string{"002.ndjson", "002.ndjson.part"} {
		if _, err := os.Stat(filepath.Join(dir, "events", name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("after the disk had failed %s was written: %v", name, err)
		}
	}
}
