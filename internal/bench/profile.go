package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
)

// profileCommand is `bench profile`.
type profileCommand struct {
	testbedFlags
	Connections int           `default:"256" help:"Keep-alive connections."`
	Duration    time.Duration `default:"20s" help:"Length of the profile."`
	Output      string        `default:"cpu.pprof" placeholder:"FILE" help:"File for the profile; read it with go tool pprof."`
	Kind        string        `default:"profile" help:"Kind of profile: profile (CPU) or another one below /debug/pprof/."`
	Preload     int           `placeholder:"N" help:"Begin with N comments in the log."`
	Paused      bool          `help:"Pause the projections."`
	Statements  int           `default:"12" help:"Number of SQL statements to list; 0 switches their statistics off, which cost time too."`
}

// Run saves the profile and prints the figures of the round and the statements.
func (c *profileCommand) Run(ctx context.Context) error {
	var settings map[string]string
	if c.Statements > 0 {
		settings = map[string]string{
			"shared_preload_libraries": "pg_stat_statements", "pg_stat_statements.track_planning": "on",
			"pg_stat_statements.track": "all",
		}
	}
	return c.withService(ctx, c.Paused, settings, func(s *contestant) error { return c.profile(ctx, s) })
}

func (c *profileCommand) profile(ctx context.Context, s *contestant) error {
	if err := s.preload(ctx, c.Preload); err != nil {
		return err
	}
	if _, err := s.measure(ctx, c.Connections, 2*time.Second); err != nil { // warm-up
		return err
	}
	if c.Statements > 0 {
		const resetSQL = `CREATE EXTENSION IF NOT EXISTS pg_stat_statements; SELECT pg_stat_statements_reset()`
		if _, err := s.admin.Exec(ctx, resetSQL); err != nil {
			return fmt.Errorf("reset the statistics of statements: %w", err)
		}
	}
	var f figures
	err := s.profileWhile(ctx, c.Kind, c.Duration, c.Output, func(ctx context.Context) (err error) {
		f, err = s.measure(ctx, c.Connections, c.Duration+time.Second)
		return err
	})
	if err != nil {
		return err
	}
	fmt.Print(f.line(s.name), "The profile is in ", c.Output, ".\n")
	if c.Statements == 0 {
		return nil
	}
	return s.printStatements(ctx, c.Statements, f.accepted)
}

// profileWhile saves a profile of the service in a file while work runs.
func (c *contestant) profileWhile(ctx context.Context, kind string, length time.Duration, output string,
	work func(context.Context) error,
) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return work(ctx) })
	group.Go(func() error {
		file, err := os.Create(output)
		if err != nil {
			return fmt.Errorf("save the profile: %w", err)
		}
		url := fmt.Sprintf("%s/debug/pprof/%s?seconds=%d", c.opsURL, kind, int(length.Seconds()))
		return errors.Join(get(ctx, http.DefaultClient, url, file), file.Close())
	})
	return group.Wait() // wrapped above
}

const statementsSQL = `SELECT query, calls, total_exec_time, total_plan_time, rows, wal_bytes::float8, shared_blks_hit + shared_blks_read
FROM pg_stat_statements JOIN pg_database d ON d.oid = dbid
WHERE d.datname LIKE 'bench\_%' ORDER BY total_exec_time + total_plan_time DESC LIMIT $1`

// printStatements prints the statements with the longest total time, which includes waits for locks and the disk.
// Figures per comment are divided by the number of comments.
func (t *testbed) printStatements(ctx context.Context, limit, comments int) error {
	perComment := 1 / float64(max(comments, 1))
	var text strings.Builder
	text.WriteString("µs/comment\tcalls\tms/call\tplan ms/call\trows/call\tblocks/row\tWAL B/comment\t  statement\n")
	var query string
	var calls, returned, blocks int64
	var executing, planning, wal float64                // milliseconds, bytes
	rows, _ := t.admin.Query(ctx, statementsSQL, limit) // ForEachRow returns its error
	columns := []any{&query, &calls, &executing, &planning, &returned, &wal, &blocks}
	if _, err := pgx.ForEachRow(rows, columns, func() error {
		n := float64(max(calls, 1))
		fmt.Fprintf(&text, "%.1f\t%d\t%.3f\t%.3f\t%.1f\t%.1f\t%.0f\t  %s\n", (executing+planning)*1e3*perComment, calls,
			executing/n, planning/n, float64(returned)/n, float64(blocks)/float64(max(returned, 1)), wal*perComment,
			abbreviate(query))
		return nil
	}); err != nil {
		return fmt.Errorf("read statements: %w", err)
	}
	fmt.Print(align(text.String()))
	return nil
}

// abbreviate returns the beginning of a statement as one line, without comments.
func abbreviate(query string) string {
	var words []string
	for line := range strings.Lines(query) {
		if !strings.HasPrefix(strings.TrimSpace(line), "--") {
			words = append(words, strings.Fields(line)...)
		}
	}
	text := strings.Join(words, " ")
	const limit = 110
	if len(text) > limit {
		text = strings.ToValidUTF8(text[:limit], "") + "…"
	}
	return text
}
