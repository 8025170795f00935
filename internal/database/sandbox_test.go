package database_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/internal/database"
	"novelgate/internal/testdb"
)

// appendEvent appends an event of a stream of its own, without its meaning.
func appendEvent(t *testing.T, pool *pgxpool.Pool, streamType string) {
	t.Helper()
	testdb.Exec(t, pool, `INSERT INTO events (log_index, stream_type, stream_version, stream_id, batch_id, event_type, event_source,
		event_id, data) SELECT coalesce(max(log_index) + 1, 0), $1, 1, gen_random_uuid(), gen_random_uuid(), 'x.v1', 'x',
		gen_random_uuid()::text, '{}' FROM events`, streamType)
}

// TestADatabaseIsASandboxOrNot: the first claim decides, for good. A log that began without a claim is no sandbox's.
func TestADatabaseIsASandboxOrNot(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		begun  bool // the log has an event before the first claim
		claims []bool
		want   error // of the last claim
	}{
		"real":                       {claims: []bool{false, false}},
		"sandbox":                    {claims: []bool{true, true}},
		"sandbox after real":         {claims: []bool{false, true}, want: database.ErrNotSandbox},
		"real after sandbox":         {claims: []bool{true, false}, want: database.ErrIsSandbox},
		"sandbox on a log that is":   {begun: true, claims: []bool{true}, want: database.ErrNotSandbox},
		"real on a log that is":      {begun: true, claims: []bool{false}},
		"real after such a sandbox":  {begun: true, claims: []bool{true, false}},
		"sandbox that has been used": {claims: []bool{true, true, true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := testdb.Pool(t, testdb.New(t))
			if c.begun {
				appendEvent(t, pool, "integration")
			}
			var err error
			for _, sandbox := range c.claims {
				err = database.Claim(t.Context(), pool, sandbox)
			}
			if !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
}

// TestWipeSandbox: a wipe refuses a real database and one that is in use. Afterwards only the events of accounts are
// left, and all rows that are read elsewhere, and the log is as protected as before.
func TestWipeSandbox(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	url := testdb.New(t)
	pool := testdb.Must(database.OpenGeneral(ctx, url))(t)
	defer pool.Close()
	for _, sandbox := range []bool{false, true} {
		testdb.Exec(t, pool, `DELETE FROM settings WHERE name = 'sandbox'`)
		testdb.Exec(t, pool, `INSERT INTO settings (name, value) VALUES ('sandbox', ($1::bool)::text)`, sandbox)
		for _, kind := range []string{"novel", "integration", "post", "person", "novel"} {
			if kind != "post" { // its id derives from its key
				appendEvent(t, pool, kind)
			}
		}
		if !sandbox {
			if err := database.WipeSandbox(ctx, pool); !errors.Is(err, database.ErrWipeReal) {
				t.Errorf("a real database: %v", err)
			}
		}
	}
	user := testdb.Must(database.OpenGeneral(ctx, url))(t)
	if err := user.Ping(ctx); err != nil {
		t.Fatal(err)
	}
	if err := database.WipeSandbox(ctx, pool); !errors.Is(err, database.ErrWipeInUse) {
		t.Errorf("while it is used: %v", err)
	}
	testdb.Exec(t, pool, `INSERT INTO refusals (integration_id, refusal_id, refused_at, request_id, operation, code, detail)
VALUES (gen_random_uuid(), gen_random_uuid(), now(), '', '', '', '')`)
	if got := testdb.Value[int](t, pool, `SELECT count(*)::int FROM events`); got != 8 {
		t.Errorf("%d events before the wipe", got)
	}
	guards := `SELECT string_agg(format('%s %s %s', tgrelid::regclass, tgname, tgenabled), ' ' ORDER BY tgrelid, tgname) FROM pg_trigger`
	guarded, log := testdb.Value[string](t, pool, guards),
		testdb.Value[string](t, pool, `SELECT value FROM settings WHERE name = 'log_id'`)
	user.Close()
	testdb.Eventually(t, "nobody uses it", func() bool {
		err := database.WipeSandbox(ctx, pool)
		if err != nil && !errors.Is(err, database.ErrWipeInUse) {
			t.Fatal(err)
		}
		return err == nil
	})
	if got := testdb.Value[string](t, pool, `SELECT string_agg(log_index || ' ' || stream_type, ', ' ORDER BY log_index) FROM events`); got != "0 integration, 1 person, 2 integration, 3 person" {
		t.Errorf("the log is now %s", got)
	}
	if testdb.Value[int](t, pool, `SELECT count(*)::int FROM refusals`) != 0 {
		t.Error("a refusal is left")
	}
	if testdb.Value[string](t, pool, guards) != guarded {
		t.Error("a trigger is not as it was")
	}
	if testdb.Value[string](t, pool, `SELECT value FROM settings WHERE name = 'log_id'`) == log {
		t.Error("another log has the same id")
	}
	if testdb.Value[int](t, pool, `SELECT count(*)::int FROM ledger_state`) != 1 {
		t.Error("the ledger has no state")
	}
	if err := pgx.BeginFunc(context.Background(), pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `TRUNCATE events`)
		return err
	}); err == nil {
		t.Error("TRUNCATE is possible now")
	}
}
