package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"

	"novelgate/internal/analytics"
)

type analyticsCommand struct {
	Views  CommonFlags     `cmd:"" help:"List the views that analysts query."`
	Export analyticsExport `cmd:"" help:"Write one view to a CSV or Parquet file, in one snapshot."`
}

type analyticsExport struct {
	DatabaseFlags

	View   string `required:"" help:"Name of the view, as analytics views shows it."`
	Format string `default:"csv" enum:"csv,parquet" help:"csv or parquet."`
	Output string `short:"o" type:"path" placeholder:"FILE" help:"File to write; replaced when the export is complete, readable by its owner only (default, and -: standard output)."`
}

func (*analyticsExport) Help() string {
	return "--database-url may lead to a hot standby; the view is then as old as what the standby has replayed."
}

var viewColumns = columns[analytics.View]{
	[]any{"VIEW", "COLUMNS", "DESCRIPTION"},
	func(v analytics.View) []any { return []any{v.Name, len(v.Columns), v.Description} },
}

func (c *analyticsCommand) run(ctx context.Context, env *environment) error {
	output, format := c.Export.Output, analytics.Format(c.Export.Format)
	if output == "-" {
		output = ""
	}
	if output == "" && format == analytics.Parquet && isTerminal(env.stdout.Writer) {
		return errors.New("a terminal cannot show Parquet: name a file with --output, or redirect")
	}
	pool, err := env.pool(ctx)
	if err != nil {
		return err
	}
	if env.verb == "views" {
		return env.show(viewColumns.list(analytics.Views(ctx, pool)))
	}
	if output == "" {
		_, err := analytics.Export(ctx, pool, c.Export.View, format, env.stdout)
		return err
	}
	var rows int64
	err = replaceFile(output, func(file io.Writer) (err error) {
		rows, err = analytics.Export(ctx, pool, c.Export.View, format, file)
		return err
	})
	if err == nil {
		fmt.Fprintf(env.stdout, "%s: %d rows\n", output, rows)
	}
	return err
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
	file, err := renameio.NewPendingFile(path, renameio.WithTempDir(filepath.Dir(path)))
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		err = pathErr.Err // without the random name of the temporary file
	}
	if err != nil {
		return fmt.Errorf("create %s: %w", path, err)
	}
	defer file.Cleanup() //nolint:errcheck // the first error is returned
	if err := write(file); err != nil {
		return err
	}
	if err := file.CloseAtomicallyReplace(); err != nil {
		return fmt.Errorf("replace %s: %w", path, err)
	}
	return nil
}
