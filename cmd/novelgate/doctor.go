package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events/ledger"
	"novelgate/internal/database"
	"novelgate/internal/pgserver"
)

type doctorCommand struct{ CommonFlags }

func (c *doctorCommand) run(ctx context.Context, env *environment) error {
	pool, err := env.pool(ctx)
	if err != nil {
		return err
	}
	status, err := readLedger(ctx, pool)
	found := c.diagnose(ctx, pool, env.now, &status, err)
	err = env.show(result{found, func(env *environment) { printFindings(env, found) }}, nil)
	if err == nil && slices.ContainsFunc(found, func(f database.Finding) bool { return f.Status == database.Fail }) {
		return errors.New("the database is not fit for the service, or the ledger stands still: see the checks that fail")
	}
	return err
}

// diagnose makes all checks. status and err are what reading the ledger returned.
func (f DatabaseFlags) diagnose(
	ctx context.Context, pool *pgxpool.Pool, now func() time.Time, status *ledger.Status, err error,
) []database.Finding {
	found := database.Diagnose(ctx, pool, now)
	if !lacksSchema(err) { // the first serve makes it
		found = append(found, checkLedger(status, err))
	}
	if f.DatabaseURL == "" {
		found = append(found, checkDisk(pgserver.Disk(f.DataDir)), checkArchive(archiveState(ctx, pool)))
	}
	return found
}

// printFindings prints findings, and below each what to do, in lines that a terminal of 80 columns does not break.
func printFindings(env *environment, found []database.Finding) {
	const width, left = 80, 20
	for _, f := range found {
		head := fmt.Sprintf("%-6s%-14s", f.Status, f.Check)
		texts := []string{f.Found}
		if f.Advice != "" {
			texts = append(texts, "advice: "+f.Advice)
		}
		for _, text := range texts {
			for _, line := range wrap(printable(text), width-left) {
				fmt.Fprintln(env.stdout, head+line)
				head = strings.Repeat(" ", left)
			}
		}
	}
}

// wrap breaks a text at spaces into lines of at most width characters, unless a word is longer.
func wrap(text string, width int) []string {
	var lines []string
	for _, word := range strings.Fields(text) {
		last := len(lines) - 1
		if last >= 0 && utf8.RuneCountInString(lines[last]+" "+word) <= width {
			lines[last] += " " + word
		} else {
			lines = append(lines, word)
		}
	}
	return lines
}

// checkLedger checks that the ledger is sealed and signed.
func checkLedger(status *ledger.Status, err error) database.Finding {
	f := database.Finding{Check: "ledger", Status: database.OK, Found: fmt.Sprintf("%d entries", status.Size)}
	trouble := status.Trouble()
	switch {
	case err != nil:
		f.Status, f.Found, f.Advice = database.Fail, database.ErrorText(err), "see connect"
	case len(trouble) > 0:
		f.Status, f.Found = database.Fail, strings.Join(trouble, "; ")
		f.Advice = "nothing acknowledged is lost; docs/operators.md, Ledger, says how to continue"
	}
	return f
}

// formatSize returns a number of bytes as text: in MB, above 10 GB in GB.
func formatSize(bytes uint64) string {
	const mega, giga = 1e6, 1e9
	if bytes > 10*giga {
		return fmt.Sprintf("%.1f GB", float64(bytes)/giga)
	}
	return fmt.Sprintf("%.0f MB", float64(bytes)/mega)
}

// checkDisk checks the free space for the embedded server.
func checkDisk(size, free uint64) database.Finding {
	const gibibyte = 1 << 30
	const warn, fail = 10 * gibibyte, gibibyte
	f := database.Finding{Check: "disk", Status: database.OK, Found: formatSize(free) + " free"}
	switch {
	case size == 0:
		f.Found = "the free space is unknown"
	case free < fail:
		f.Status, f.Advice = database.Fail, "free some space: the server stops when it cannot write its WAL"
	case free < warn:
		f.Status, f.Advice = database.Warn, "free some space: WAL takes up to max_wal_size, and a comment about 1.3 KB"
	}
	return f
}
