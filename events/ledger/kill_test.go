package ledger_test

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"time"

	"novelgate/events/ledger"
	"novelgate/internal/database"
	"novelgate/internal/testdb"
)

// childDatabase makes the test binary a sealer on this database.
const childDatabase = "NOVELGATE_LEDGER_TEST_DATABASE"

// sealUntilKilled is what the child does.
func sealUntilKilled(url string) {
	pool, err := database.OpenLedger(context.Background(), url)
	if err != nil {
		panic(err)
	}
	sealer, err := ledger.NewSealer(ledger.SealerConfig{Pool: pool, Limit: 500, Pace: time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		panic(err)
	}
	sealer.Run(context.Background())
}

// TestKilled kills sealing processes with SIGKILL, two of them at a time, at any moment, while events are appended.
func TestKilled(t *testing.T) {
	t.Parallel()
	url := testdb.New(t)
	pool := openPool(t, url)
	child := func() *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), childDatabase+"="+url)
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
	children := [2]*exec.Cmd{child(), child()}
	advanced, last := 0, int64(0)
	for round := range 16 {
		appendEvents(t, pool, 1+rand.IntN(700))
		time.Sleep(50*time.Millisecond + rand.N(200*time.Millisecond))
		kill(children[round%2])
		if size := treeSize(t, pool); size > last {
			advanced, last = advanced+1, size
		}
		children[round%2] = child()
	}
	awaitSealed(t, pool)
	kill(children[0])
	kill(children[1])
	leaves := wantSound(t, pool)
	if advanced < 4 {
		t.Errorf("the tree grew in %d rounds only: this test has shown nothing", advanced)
	}
	t.Logf("%d leaves, grown in %d rounds of 16", len(leaves), advanced)
}
