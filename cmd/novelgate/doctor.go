package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

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
	found := database.Diagnose(ctx, pool, env.now)
	status, err := ledger.ReadStatus(ctx, pool)
	if !lacksSchema(err) { // the first serve makes it
		found = append(found, checkLedger(&status, err))
	}
	if c.DatabaseURL == "" {
		found = append(found, checkDisk(pgserver.DiskFree(c.DataDir)), checkArchive(archiveState(ctx, pool)))
	}
	err = env.show(columns[database.Finding]{
		heading: []any{"STATUS", "CHECK", "FOUND", "ADVICE"},
		row:     func(f database.Finding) []any { return []any{f.Status, f.Check, f.Found, f.Advice} },
	}.list(found, nil))
	if err == nil && slices.ContainsFunc(found, func(f database.Finding) bool { return f.Status == database.Fail }) {
		return errors.New("the database is not fit for the service, or the ledger stands still: see the checks that fail")
	}
	return err
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

// checkDisk checks the free space for the embedded server.
func checkDisk(free uint64, known bool) database.Finding {
	const gibibyte = 1 << 30
	const warn, fail = 10 * gibibyte, gibibyte
	f := database.Finding{Check: "disk", Status: database.OK, Found: fmt.Sprintf("%.1f GiB free", float64(free)/gibibyte)}
	switch {
	case !known:
		f.Found = "the free space is unknown"
	case free < fail:
		f.Status, f.Advice = database.Fail, "free some space: the server stops when it cannot write its WAL"
	case free < warn:
		f.Status, f.Advice = database.Warn, "free some space: WAL takes up to max_wal_size, and a comment about 1.3 KB"
	}
	return f
}
