package main

import (
	"context"
	"errors"
	"fmt"
	"io"
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
}

const statementsSQL = `SELECT query, calls, total_exec_time + total_plan_time, rows, wal_bytes::float8, shared_blks_hit + shared_blks_read
FROM pg_stat_statements JOIN pg_database d ON d.oid = dbid
WHERE d.datname LIKE 'bench\_%' ORDER BY total_exec_time + total_plan_time DESC LIMIT 12`

// Run saves the profile, and prints the figures of the round and the statements with the longest total time, which
// includes waits for locks and the disk.
func (c *profileCommand) Run(ctx context.Context) error {
	settings := map[string]string{
		"shared_preload_libraries": "pg_stat_statements", "pg_stat_statements.track_planning": "on",
		"pg_stat_statements.track": "all",
	}
	return c.withService(ctx, settings, func(s *contestant) error {
		if _, err := s.round(ctx, c.Connections, 2*time.Second, 0); err != nil { // warm-up
			return err
		}
		const resetSQL = `CREATE EXTENSION IF NOT EXISTS pg_stat_statements; SELECT pg_stat_statements_reset()`
		if _, err := s.admin.Exec(ctx, resetSQL); err != nil {
			return fmt.Errorf("reset the statistics of statements: %w", err)
		}
		var f figures
		group, profiling := errgroup.WithContext(ctx)
		group.Go(func() (err error) {
			f, err = s.round(profiling, c.Connections, c.Duration+time.Second, 0)
			return err
		})
		group.Go(func() error { return c.save(profiling, s.opsURL) })
		if err := group.Wait(); err != nil {
			return err
		}
		fmt.Printf("%.0f comments/s, p50 %.2f ms, p99 %.2f ms, CPU %.1f + %.1f µs, noise %.2f\n%sThe profile is in %s.\n",
			f.perSecond, millis(f.p50), millis(f.p99), micros(f.service), micros(f.database), f.noise, failures(s.name, f),
			c.Output)
		var text strings.Builder
		text.WriteString("µs/comment\tcalls\tms/call\trows/call\tblocks/row\tWAL B/comment\t  statement\n")
		var query string
		var calls, returned, blocks int64
		var spent, wal float64                       // milliseconds, bytes
		rows, _ := s.admin.Query(ctx, statementsSQL) // ForEachRow returns its error
		if _, err := pgx.ForEachRow(rows, []any{&query, &calls, &spent, &returned, &wal, &blocks}, func() error {
			const limit = 110
			var words []string
			for line := range strings.Lines(query) {
				if !strings.HasPrefix(strings.TrimSpace(line), "--") {
					words = append(words, strings.Fields(line)...)
				}
			}
			query = strings.Join(words, " ")
			query = strings.ToValidUTF8(query[:min(len(query), limit)], "")
			comments, n := float64(f.accepted), float64(max(calls, 1))
			fmt.Fprintf(&text, "%.1f\t%d\t%.3f\t%.1f\t%.1f\t%.0f\t  %s\n", spent*1e3/comments, calls, spent/n,
				float64(returned)/n, float64(blocks)/float64(max(returned, 1)), wal/comments, query)
			return nil
		}); err != nil {
			return fmt.Errorf("read statements: %w", err)
		}
		fmt.Print(align(text.String()))
		return nil
	})
}

// save saves a profile of the running service.
func (c *profileCommand) save(ctx context.Context, opsURL string) (err error) {
	file, err := os.Create(c.Output)
	if err != nil {
		return fmt.Errorf("save the profile: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	url := fmt.Sprintf("%s/debug/pprof/profile?seconds=%d", opsURL, int(c.Duration.Seconds()))
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return fmt.Errorf("make request: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("fetch the profile: %w", err)
	}
	defer func() { _ = response.Body.Close() }() // it was only read
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("fetch the profile: %s", response.Status)
	}
	if _, err := io.Copy(file, response.Body); err != nil {
		return fmt.Errorf("fetch the profile: %w", err)
	}
	return nil
}
