package database_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/internal/database"
	"novelgate/internal/testdb"
)

// TestWatch: what a statement waits for is said within ten seconds, and once. An interrupt then tells whether the
// outcome is known.
func TestWatch(t *testing.T) {
	t.Parallel()
	type wait struct {
		url, sql, want string
		unknown        bool
		silence        func() // before the statement
	}
	held := func(t *testing.T, url, sql string, args ...any) (by string) {
		t.Helper()
		holder := testdb.Connect(t, url)
		testdb.Exec(t, holder, `SET application_name = holder`)
		testdb.Exec(t, testdb.Begin(t, holder), sql, args...)
		return fmt.Sprintf(", held by process %d (holder, idle in transaction since ", holder.PgConn().PID())
	}
	for name, begin := range map[string]func(t *testing.T) wait{
		"the append lock, tried again and again": func(t *testing.T) wait {
			url := testdb.New(t)
			by := held(t, url, `SELECT pg_advisory_xact_lock($1)`, int64(database.LogLock))
			return wait{
				url, fmt.Sprintf(`SET lock_timeout = '3s'; SELECT pg_advisory_xact_lock(%d)`, database.LogLock),
				"the append lock" + by, false, nil,
			}
		},
		"a table": func(t *testing.T) wait {
			url := testdb.New(t)
			by := held(t, url, `LOCK TABLE title_lookup`)
			return wait{url, `DELETE FROM title_lookup`, "a lock on title_lookup" + by, true, nil}
		},
		"a synchronous standby": func(t *testing.T) wait {
			url := testdb.NewServer(t, nil)
			conn := testdb.Connect(t, url)
			testdb.Exec(t, conn, `CREATE TABLE numbers (n integer)`)
			testdb.Exec(t, conn, `ALTER SYSTEM SET synchronous_standby_names = 's1'`)
			testdb.Exec(t, conn, `SELECT pg_reload_conf()`)
			testdb.Exec(t, conn, `CHECKPOINT`) // commits wait once the checkpointer has read the setting, too
			return wait{url, `INSERT INTO numbers VALUES (1)`, "the synchronous standby s1, which is not connected", true, nil}
		},
		"a slow statement": func(t *testing.T) wait {
			return wait{testdb.New(t), `SELECT pg_sleep(60)`, "a statement that runs since ", false, nil}
		},
		"a silent server": func(t *testing.T) wait {
			r := newRelay(t)
			return wait{r.url, `SELECT 1`, "an answer of the database server", false, r.silence}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := begin(t)
			said := make(chan string, 10)
			ctx, watch := database.StartWatch(t.Context(), func(cause string) { said <- cause })
			pool := testdb.Must(database.OpenGeneral(ctx, w.url))(t)
			defer pool.Close()
			testdb.NoError(t, pool.Ping(ctx))
			if w.silence != nil {
				w.silence()
			}
			interrupted, interrupt := context.WithCancel(ctx)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				try(interrupted, pool, w.sql)
			}()
			select {
			case got := <-said:
				if !strings.HasPrefix(got, w.want) {
					t.Errorf("%q, want %q", got, w.want)
				}
			case <-time.After(10 * time.Second):
				t.Error("no word within ten seconds")
			}
			interrupt()
			<-ended
			watch.Stop()
			if got := watch.OutcomeUnknown(); got != w.unknown {
				t.Errorf("the outcome is unknown: %t, want %t", got, w.unknown)
			}
			if len(said) > 0 {
				t.Errorf("said again: %q", <-said)
			}
		})
	}
}

// try executes a statement until ctx ends.
func try(ctx context.Context, pool *pgxpool.Pool, sql string) {
	for ctx.Err() == nil {
		_, _ = pool.Exec(ctx, sql)
	}
}
