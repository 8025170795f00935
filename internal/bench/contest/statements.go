package contest

import (
	"context"
	"fmt"
	"strings"
)

// StatementSettings make the database server count what each statement costs, with pg_stat_statements.
func StatementSettings() map[string]string {
	return map[string]string{
		"shared_preload_libraries": "pg_stat_statements", "pg_stat_statements.track_planning": "on",
		"pg_stat_statements.track": "all",
	}
}

// ResetStatements forgets what was counted.
func (a *Arena) ResetStatements(ctx context.Context) error {
	if _, err := a.admin.Exec(ctx, `CREATE EXTENSION IF NOT EXISTS pg_stat_statements`); err != nil {
		return fmt.Errorf("count statements: %w", err)
	}
	if _, err := a.admin.Exec(ctx, `SELECT pg_stat_statements_reset()`); err != nil {
		return fmt.Errorf("count statements: %w", err)
	}
	return nil
}

const statementsSQL = `SELECT query, calls, total_exec_time, total_plan_time, rows, wal_bytes::float8, shared_blks_hit + shared_blks_read
FROM pg_stat_statements JOIN pg_database d ON d.oid = dbid
WHERE d.datname LIKE 'bench\_%' ORDER BY total_exec_time + total_plan_time DESC LIMIT $1`

// Statements shows those that took longest. Their time includes waiting, for locks or the disk. Figures per comment
// are divided by the number of comments.
func (a *Arena) Statements(ctx context.Context, limit, comments int) (string, error) {
	rows, err := a.admin.Query(ctx, statementsSQL, limit)
	if err != nil {
		return "", fmt.Errorf("read statements: %w", err)
	}
	defer rows.Close()
	perComment := 1 / float64(max(comments, 1))
	var text strings.Builder
	text.WriteString("µs/comment\tcalls\tms/call\tplan ms/call\trows/call\tblocks/row\tWAL B/comment\t  statement\n")
	for rows.Next() {
		var query string
		var calls, returned, blocks int64
		var executing, planning, wal float64 // milliseconds, bytes
		if err := rows.Scan(&query, &calls, &executing, &planning, &returned, &wal, &blocks); err != nil {
			return "", fmt.Errorf("read statements: %w", err)
		}
		n := float64(max(calls, 1))
		fmt.Fprintf(&text, "%.1f\t%d\t%.3f\t%.3f\t%.1f\t%.1f\t%.0f\t  %s\n", (executing+planning)*1e3*perComment, calls,
			executing/n, planning/n,
			float64(returned)/n, float64(blocks)/float64(max(returned, 1)), wal*perComment, brief(query))
	}
	if err := rows.Err(); err != nil {
		return "", fmt.Errorf("read statements: %w", err)
	}
	return align(text.String())
}

// brief is the beginning of a statement without its comments, in one line.
func brief(query string) string {
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
