package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"novelgate/internal/analytics"
)

// AnalyticsCommand is `novelgate analytics …`.
type AnalyticsCommand struct {
	Views  AnalyticsViews  `cmd:"" help:"List the views that analysts query."`
	Export AnalyticsExport `cmd:"" help:"Write one view to a CSV or Parquet file, as it is at one moment."`
}

// AnalyticsViews is `novelgate analytics views`.
type AnalyticsViews struct {
	DatabaseFlags
	OutputFlags
}

// Run prints the views; as JSON, with their columns.
func (c *AnalyticsViews) Run(in *invocation) error {
	return c.withPool(in, func(pool *pgxpool.Pool) error {
		views, err := analytics.Views(in.ctx, pool)
		if err != nil {
			return err
		}
		return c.print(in, views, func() {
			rows := make([][]any, len(views))
			for i := range views {
				rows[i] = []any{views[i].Name, len(views[i].Columns), views[i].Description}
			}
			in.table([]any{"VIEW", "COLUMNS", "DESCRIPTION"}, rows)
		})
	})
}

// AnalyticsExport is `novelgate analytics export`.
type AnalyticsExport struct {
	DatabaseFlags
	View   string `required:"" help:"Name of the view, as analytics views shows it."`
	Format string `default:"csv" enum:"csv,parquet" help:"csv or parquet."`
	Output string `short:"o" type:"path" placeholder:"FILE" help:"File to write; replaced when the export is complete, readable by its owner only (default: standard output)."`
}

// Run exports the view.
func (c *AnalyticsExport) Run(in *invocation) error {
	if c.Output == "" && c.Format == string(analytics.Parquet) && isTerminal(in.stdout) {
		return errors.New("a terminal cannot show Parquet: name a file with --output, or redirect")
	}
	return c.withPool(in, func(pool *pgxpool.Pool) error {
		export := analytics.Export{
			View: c.View, Format: analytics.Format(c.Format),
			CreatedBy: fmt.Sprintf("novelgate version %s (build %s)", thisBuild().Version, thisBuild().Commit),
		}
		// Rows and a bar on one terminal would be unreadable.
		if isTerminal(in.stderr) && (c.Output != "" || !isTerminal(in.stdout)) {
			export.Progress = in.progress(c.View, "rows")
		}
		if c.Output == "" {
			_, err := export.Run(in.ctx, pool, in.stdout)
			return err
		}
		var rows int64
		err := replaceFile(c.Output, func(file io.Writer) (err error) {
			rows, err = export.Run(in.ctx, pool, file)
			return err
		})
		if err != nil {
			return err
		}
		fmt.Fprintf(in.stdout, "%s: %d rows\n", c.Output, rows)
		return nil
	})
}

// progress returns a function that shows progress on the terminal, in units of its.
func (in *invocation) progress(what, its string) func(done, total int64) {
	var bar *progressbar.ProgressBar
	return func(done, total int64) {
		if bar == nil {
			bar = progressbar.NewOptions64(total, progressbar.OptionSetWriter(in.stderr), progressbar.OptionSetDescription(what),
				progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString(its),
				progressbar.OptionThrottle(100*time.Millisecond),
				progressbar.OptionFullWidth(), progressbar.OptionOnCompletion(func() { fmt.Fprintln(in.stderr) }))
		}
		_ = bar.Set64(done) // the bar is a courtesy
	}
}

func isTerminal(stream io.Writer) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// replaceFile puts what write writes in the place of a file, once all of it is there.
func replaceFile(path string, write func(io.Writer) error) (err error) {
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		err = pathErr.Err // of a name that nobody has chosen
	}
	if err != nil {
		return fmt.Errorf("create %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(file.Name()) // the error that led here matters more
		}
	}()
	if err := errors.Join(write(file), file.Close()); err != nil {
		return err
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return fmt.Errorf("put file in its place: %w", err)
	}
	return nil
}
