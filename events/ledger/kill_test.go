package ledger_test

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events/ledger"
	"novelgate/internal/database"
	"novelgate/internal/testdb"
)

// childDatabase makes the test binary a sealer on this database, whose connections have the name childName.
const (
	childDatabase = "NOVELGATE_LEDGER_TEST_DATABASE"
	childName     = "NOVELGATE_LEDGER_TEST_NAME"
)

// sealUntilKilled is what the child does.
func sealUntilKilled(url string) {
	opened, err := database.OpenLedger(context.Background(), url)
	if err != nil {
		panic(err)
	}
	config := opened.Config()
	opened.Close()
	config.ConnConfig.RuntimeParams["application_name"] = os.Getenv(childName)
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		panic(err)
	}
	sealer := ledger.NewSealer(ledger.SealerConfig{
		Pool: pool, Limit: 500, Pace: time.Millisecond, Logger: slog.New(slog.DiscardHandler),
	})
	sealer.Run(context.Background())
}

// slowSealsSQL makes every seal last, so that it can be met.
const slowSealsSQL = `CREATE FUNCTION last_a_while() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.03); RETURN NEW; END $$;
CREATE TRIGGER last_a_while BEFORE UPDATE ON ledger_state FOR EACH ROW EXECUTE FUNCTION last_a_while()`

// sealingSQL names who is in the middle of a seal.
const sealingSQL = `SELECT coalesce(max(application_name), '') FROM pg_stat_activity
WHERE datname = current_database() AND application_name IN ('sealer-0', 'sealer-1') AND backend_xid IS NOT NULL`

// TestKilled kills sealing processes, of which there are two, with SIGKILL at any moment of a seal, while events
// are appended. After each kill the tree goes on.
func TestKilled(t *testing.T) {
	t.Parallel()
	url := testdb.New(t)
	pool := openPool(t, url)
	if _, err := pool.Exec(t.Context(), slowSealsSQL); err != nil {
		t.Fatal(err)
	}
	child := func(name string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), childDatabase+"="+url, childName+"="+name)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	kill := func(cmd *exec.Cmd) {
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it says that it was killed
	}
	generate(t, pool, 20, 1000)
	children, kills := map[string]*exec.Cmd{}, map[string]int{}
	for _, name := range []string{"sealer-0", "sealer-1"} {
		children[name] = child(name)
	}
	for range 6 {
		appendEvents(t, pool, 1+rand.IntN(700))
		sealing := ""
		testdb.Eventually(t, "one of the processes is in the middle of a seal", func() bool {
			if err := pool.QueryRow(t.Context(), sealingSQL).Scan(&sealing); err != nil {
				t.Fatal(err)
			}
			return sealing != ""
		})
		time.Sleep(rand.N(40 * time.Millisecond)) // any moment of it
		size := treeSize(t, pool)
		kill(children[sealing])
		kills[sealing]++
		children[sealing] = child(sealing)
		appendEvents(t, pool, 1)
		testdb.Eventually(t, "the tree grows after a kill", func() bool { return treeSize(t, pool) > size })
	}
	awaitSealed(t, pool)
	for _, last := range children {
		kill(last)
	}
	t.Logf("%d leaves; killed in the middle of a seal: %v", len(wantSound(t, pool)), kills)
}
