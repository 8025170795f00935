package imports_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/commands/imports"
	"novelgate/commands/ratelimit"
	"novelgate/internal/testdb"
)

// TestRateOfConcurrentSaves: if two workers save at the same time, the second counts the lines of the first. The rate
// of an import is never negative, and a paused import has none.
func TestRateOfConcurrentSaves(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	pool := testdb.Pool(t, testdb.New(t))
	importID, integration, worker := uuid.New(), uuid.New(), uuid.New()
	testdb.Exec(t, pool, `INSERT INTO imports (import_id, integration_id, idempotency_key, key_id, state, lines, measured_at)
VALUES ($1, $2, 'k', $3, 'processing', 3000, now() - interval '1 minute')`, importID, integration, uuid.New())
	testdb.Exec(t, pool, `INSERT INTO import_chunks (import_id, first_line, lines, turn, unsettled, ordered, holder, body)
SELECT $1, n * 1000, 1000, n * 1000, 1000, false, $2, '' FROM generate_series(0, 1) AS n`, importID, worker)
	save := func(ctx context.Context, tx pgx.Tx, chunk, created int) error {
		var state string
		return tx.QueryRow(ctx, imports.SaveSQL, importID, chunk, worker, []byte{}, []byte{}, 0, 0, nil, "1 minute",
			created, 0, 0, 0, 0, 0, nil, nil, nil, nil, nil).Scan(&state)
	}

	first := testdb.Must(pool.Begin(ctx))(t)
	defer func() { _ = first.Rollback(context.WithoutCancel(ctx)) }()
	if err := save(ctx, first, 0, 900); err != nil {
		t.Fatal(err)
	}
	second := make(chan error, 1)
	go func() {
		second <- pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return save(ctx, tx, 1000, 10) })
	}()
	testdb.Eventually(t, "the second save waits for the first", func() bool {
		return testdb.Value[bool](t, pool, `SELECT EXISTS (SELECT FROM pg_stat_activity
WHERE datname = current_database() AND wait_event_type = 'Lock')`)
	})
	if err := first.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-second; err != nil {
		t.Fatal(err)
	}

	store := &imports.Store{Pool: pool}
	limit := ratelimit.Decision{Limit: 3000, Remaining: 3000}
	got, err := store.Find(ctx, integration, importID)
	got.Estimate(limit)
	if err != nil || got.Created != 910 || got.LinesPerSecond <= 0 || got.LinesPerSecond > 900.0/60 ||
		got.SecondsLeft == nil {
		t.Errorf("import %+v, %v", got, err)
	}
	testdb.Exec(t, pool, `UPDATE imports SET measured_at = now() - interval '1 minute'`)
	got, err = store.Find(ctx, integration, importID)
	got.Estimate(limit)
	if err != nil || got.LinesPerSecond != 0 || got.SecondsLeft != nil {
		t.Errorf("import that rests %+v, %v", got, err)
	}
}

// TestSecondsLeft: the time at the current rate or, if longer, until there are permits for all lines.
func TestSecondsLeft(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		rate                      float64
		pending, waiting, permits int64
		resting                   bool
		want                      *int64
	}{
		"fast enough":               {1000, 20_000, 0, 60_000, false, new(int64(21))},
		"without permits":           {1000, 120_000, 0, 0, false, new(int64(121))},
		"a higher rate changes":     {9000, 120_000, 0, 0, false, new(int64(121))},
		"the next window":           {9000, 75_000, 0, 60_000, false, new(int64(16))},
		"replies that wait":         {9000, 0, 75_000, 60_000, false, new(int64(16))},
		"rests":                     {0, 120_000, 0, 0, true, new(int64(121))},
		"nothing works":             {0, 120_000, 0, 0, false, nil},
		"rests, but may soon go on": {0, 100, 0, 60_000, true, nil},
		"done":                      {1000, 0, 0, 0, false, nil},
	} {
		i := imports.Import{Pending: tc.pending, Waiting: tc.waiting, LinesPerSecond: tc.rate}
		if tc.resting {
			i.Rest()
		}
		i.Estimate(ratelimit.Decision{Limit: 60_000, Remaining: int(tc.permits)})
		if diff := cmp.Diff(tc.want, i.SecondsLeft); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}
