package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/google/renameio/v2"

	"novelgate/internal/analytics"
)

type analyticsCommand struct {
	Views  analyticsViews  `cmd:"" help:"List the views that analysts query."`
	Export analyticsExport `cmd:"" help:"Write one view to a CSV or Parquet file, in one snapshot."`
}

type analyticsViews struct{ CommonFlags }

func (c *analyticsViews) Run(ctx context.Context, env *env) error {
	pool, err := c.pool(ctx, env)
	if err != nil {
		return err
	}
	list, err := analytics.Views(ctx, pool)
	return viewColumns.printList(c.output(env), list, err)
}

var viewColumns = columns[analytics.View]{
	[]any{"VIEW", "COLUMNS", "DESCRIPTION"},
	func(v analytics.View) []any { return []any{v.Name, len(v.Columns), v.Description} },
}

type analyticsExport struct {
	DatabaseFlags

	View   string `required:"" help:"Name of the view, as analytics views shows it."`
	Format string `default:"csv" enum:"csv,parquet" help:"csv or parquet."`
	Output string `short:"o" type:"path" placeholder:"FILE" help:"File to write; replaced when the export is complete, readable by its owner only (default: standard output)."`
}

func (*analyticsExport) Help() string {
	return "--database-url may lead to a hot standby; the view is then as old as what the standby has replayed."
}

func (c *analyticsExport) Run(ctx context.Context, env *env) error {
	if c.Output == "" && c.Format == string(analytics.Parquet) && isTerminal(env.stdout) {
		return errors.New("a terminal cannot show Parquet: name a file with --output, or redirect")
	}
	pool, err := c.pool(ctx, env)
	if err != nil {
		return err
	}
	export := analytics.Export{
		View: c.View, Format: analytics.Format(c.Format),
		CreatedBy: fmt.Sprintf("novelgate version %s (build %s)", thisBuild().Version, thisBuild().Commit),
	}
	// A progress bar would mix with rows on the same terminal.
	if c.Output != "" || !isTerminal(env.stdout) {
		export.Progress = env.progress(c.View, "rows")
	}
	if c.Output == "" {
		_, err := export.Run(ctx, pool, env.stdout)
		return err
	}
	var rows int64
	err = replaceFile(c.Output, func(file io.Writer) (err error) {
		rows, err = export.Run(ctx, pool, file)
		return err
	})
	if err == nil {
		fmt.Fprintf(env.stdout, "%s: %d rows\n", c.Output, rows)
	}
	return err
}

// replaceFile replaces the file at path by what write writes, once that is complete.
func replaceFile(path string, write func(io.Writer) error) error {
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
