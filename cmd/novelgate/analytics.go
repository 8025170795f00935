package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/renameio/v2"

	"novelgate/internal/analytics"
	"novelgate/internal/system"
)

type analyticsCommand struct {
	Views  CommonFlags     `cmd:"" help:"List the views that analysts query."`
	Export analyticsExport `cmd:"" help:"Write one view, or all in one snapshot, to CSV or Parquet files."`
}

type analyticsExport struct {
	DatabaseFlags

	View         string `required:"" xor:"views" help:"Name of the view, as analytics views shows it."`
	All          bool   `required:"" xor:"views" help:"All views, into --output-dir."`
	Format       string `default:"csv" enum:"csv,parquet" help:"csv or parquet."`
	Output       string `short:"o" type:"path" xor:"output" placeholder:"FILE" help:"File to write; replaced when the export is complete, readable by its owner only (default, and -: standard output)."`
	OutputDir    string `type:"path" xor:"output" placeholder:"DIR" help:"Directory for a file of each view and, at the end, manifest.json, which lists them."`
	ChangedSince string `placeholder:"TIME" help:"Only rows with a changed_at from this time on. With --all, views without this column are complete."`
}

func (*analyticsExport) Help() string {
	return "--database-url may lead to a hot standby; the views are then as old as what the standby has replayed."
}

var viewColumns = columns[analytics.View]{
	[]any{"VIEW", "COLUMNS", "DESCRIPTION"},
	func(v analytics.View) []any { return []any{v.Name, len(v.Columns), v.Description} },
}

func (c *analyticsCommand) run(ctx context.Context, env *environment) error {
	export := &c.Export
	if export.Output == "-" {
		export.Output = ""
	}
	if export.All != (export.OutputDir != "") {
		return errors.New("--all and --output-dir go together")
	}
	if export.Output == "" && !export.All && export.Format == string(analytics.Parquet) && isTerminal(env.stdout.Writer) {
		return errors.New("a terminal cannot show Parquet: name a file with --output, or redirect")
	}
	pool, err := env.pool(ctx)
	if err != nil {
		return err
	}
	if env.verb == "views" {
		return env.show(viewColumns.list(analytics.Views(ctx, pool)))
	}
	snapshot, err := analytics.Open(ctx, pool, export.ChangedSince)
	if err != nil {
		return err
	}
	defer snapshot.Close(ctx)
	if export.All {
		return export.all(ctx, env, snapshot)
	}
	view, err := snapshot.Find(ctx, export.View)
	if err != nil {
		return err
	}
	if export.ChangedSince != "" && !view.HasChangedAt() {
		return fmt.Errorf("the view %s has no changed_at: leave out --changed-since", view.Name)
	}
	if export.Output == "" {
		_, err := snapshot.Export(ctx, view, analytics.Format(export.Format), env.stdout)
		return err
	}
	_, err = export.write(ctx, env, snapshot, view, export.Output)
	return err
}

// write exports a view to a file, and says so.
func (c *analyticsExport) write(
	ctx context.Context, env *environment, snapshot *analytics.Snapshot, view analytics.View, path string,
) (rows int64, err error) {
	err = replaceFile(path, func(file io.Writer) (err error) {
		rows, err = snapshot.Export(ctx, view, analytics.Format(c.Format), file)
		return err
	})
	if err == nil {
		fmt.Fprintf(env.stdout, "%s: %d rows\n", path, rows)
	}
	return rows, err
}

// manifest lists the files of an export of all views.
type manifest struct {
	AsOf         time.Time      `json:"as_of"`
	ChangedSince string         `json:"changed_since,omitzero"`
	Files        []exportedFile `json:"files"`
}

type exportedFile struct {
	View string `json:"view"`
	File string `json:"file"`
	Rows int64  `json:"rows"`
}

// all exports every view into a directory. The manifest of an earlier export goes first and that of this one comes
// last, so a directory with a manifest is complete.
func (c *analyticsExport) all(ctx context.Context, env *environment, snapshot *analytics.Snapshot) error {
	views, err := snapshot.Views(ctx)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(c.OutputDir, 0o700); err != nil {
		return fmt.Errorf("create the directory: %w", err)
	}
	list := filepath.Join(c.OutputDir, "manifest.json")
	if err := os.Remove(list); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the earlier manifest: %w", err)
	}
	written := manifest{AsOf: snapshot.AsOf, ChangedSince: snapshot.ChangedSince}
	for _, view := range views {
		file := exportedFile{View: view.Name, File: view.Name + "." + c.Format}
		if file.Rows, err = c.write(ctx, env, snapshot, view, filepath.Join(c.OutputDir, file.File)); err != nil {
			return err
		}
		written.Files = append(written.Files, file)
	}
	return replaceFile(list, func(file io.Writer) error {
		return json.MarshalWrite(file, written, jsontext.WithIndent("  "))
	})
}

// replaceFile replaces the file at path by what write writes, once that is complete. It writes through a symbolic link,
// and into what is no regular file, such as a device or a pipe.
func replaceFile(path string, write func(io.Writer) error) error {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		file, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return fmt.Errorf("open the output: %w", err)
		}
		return errors.Join(write(file), file.Close())
	}
	removeStale(path)
	file, err := renameio.NewPendingFile(path, renameio.WithTempDir(filepath.Dir(path)))
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		err = pathErr.Err // without the random name of the temporary file
	}
	if err != nil {
		return fmt.Errorf("create %s: %w", path, err)
	}
	defer file.Cleanup()                                               //nolint:errcheck // the first error is returned
	_ = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) // see removeStale; it is new, so nobody has it
	if err := write(file); err != nil {
		return err
	}
	if err := file.CloseAtomicallyReplace(); err != nil {
		return fmt.Errorf("replace %s: %w", path, err)
	}
	return nil
}

// removeStale removes the temporary files that killed processes have left of a file at path. Those of living processes
// are locked.
func removeStale(path string) {
	dir, base := filepath.Split(path)
	entries, _ := os.ReadDir(cmp.Or(dir, ".")) // the next step fails on the same directory
	for _, entry := range entries {
		suffix, ours := strings.CutPrefix(entry.Name(), "."+base)
		if _, err := strconv.ParseUint(suffix, 10, 64); !ours || err != nil || !entry.Type().IsRegular() {
			continue
		}
		stale, err := system.Lock(filepath.Join(dir, entry.Name()), os.O_RDWR, syscall.LOCK_EX|syscall.LOCK_NB)
		if err != nil {
			continue
		}
		_ = os.Remove(stale.Name()) // it only takes space
		_ = stale.Close()
	}
}
