package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/google/renameio/v2"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/internal/analytics"
	"novelgate/internal/database"
)

type analyticsCommand struct {
	Views  analyticsViews  `cmd:"" help:"List the views that analysts query."`
	Export analyticsExport `cmd:"" help:"Write one view to a CSV or Parquet file, in one snapshot."`
}

type analyticsViews struct{ CommonFlags }

// Run prints the views. JSON output includes their columns.
func (*analyticsViews) Run(ctx context.Context, out *output, pool *pgxpool.Pool) error {
	list, err := analytics.Views(ctx, pool)
	return viewColumns.printList(out, list, err)
}

var viewColumns = columns[analytics.View]{
	[]any{"VIEW", "COLUMNS", "DESCRIPTION"},
	func(v analytics.View) []any { return []any{v.Name, len(v.Columns), v.Description} },
}

type analyticsExport struct {
	DatabaseFlags
	Standbys standbyFlags `embed:""`

	View   string `required:"" help:"Name of the view, as analytics views shows it."`
	Format string `default:"csv" enum:"csv,parquet" help:"csv or parquet."`
	Output string `short:"o" type:"path" placeholder:"FILE" help:"File to write; replaced when the export is complete, readable by its owner only (default: standard output)."`
}

// Help is shown by --help.
func (*analyticsExport) Help() string {
	return "With --read-database-url it reads from a standby that has everything committed before the command, and " +
		"waits for one for up to --read-max-lag. If there is none, it reads from the database itself."
}

// Validate refuses values out of range; kong calls it.
func (c *analyticsExport) Validate() error { return c.Standbys.validate() }

func (c *analyticsExport) Run(ctx context.Context, s streams, open *resources, now clock) error {
	if c.Output == "" && c.Format == string(analytics.Parquet) && isTerminal(s.stdout) {
		return errors.New("a terminal cannot show Parquet: name a file with --output, or redirect")
	}
	pool, err := c.source(ctx, s, open, now)
	if err != nil {
		return err
	}
	export := analytics.Export{
		View: c.View, Format: analytics.Format(c.Format),
		CreatedBy: fmt.Sprintf("novelgate version %s (build %s)", thisBuild().Version, thisBuild().Commit),
	}
	// A progress bar would mix with rows on the same terminal.
	if c.Output != "" || !isTerminal(s.stdout) {
		export.Progress = s.progress(c.View, "rows")
	}
	if c.Output == "" {
		_, err := export.Run(ctx, pool, s.stdout)
		return err
	}
	var rows int64
	err = replaceFile(c.Output, func(file io.Writer) (err error) {
		rows, err = export.Run(ctx, pool, file)
		return err
	})
	if err == nil {
		fmt.Fprintf(s.stdout, "%s: %d rows\n", c.Output, rows)
	}
	return err
}

// source opens a standby that has replayed everything committed before the call; it waits for one for up to
// --read-max-lag. Without one it opens the database itself.
func (c *analyticsExport) source(ctx context.Context, s streams, open *resources, now clock) (*pgxpool.Pool, error) {
	pool, err := c.ProvidePool(ctx, open)
	if err != nil || c.Standbys.URL == "" || c.Sandbox != "" {
		return pool, err
	}
	standby, err := database.OpenReplayed(ctx, c.Standbys.URL, pool, c.Standbys.MaxLag, now)
	if errors.Is(err, database.ErrNoStandby) {
		fmt.Fprintf(s.stderr, "reading from the database itself: %v\n", err)
		return pool, nil
	}
	if err != nil {
		return nil, err
	}
	open.closeLater(standby.Close)
	return standby, nil
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
