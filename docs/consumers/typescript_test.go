//go:build generators

package consumers_test

import (
	"context"
	"os"
	"os/exec"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"novelgate/docs/consumers"
	"novelgate/events/ledger/ledgertest"
	"novelgate/events/relay"
	"novelgate/events/relay/relaytest"
	"novelgate/internal/testdb"
)

// The consumer in TypeScript keeps the same table. It is killed, and started again.
func TestConsumerInTypeScript(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("typescript")); err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{{"npm", "ci"}, {"npx", "--no", "tsc"}} {
		cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
		cmd.Dir = dir
		if said, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", command, err, said)
		}
	}
	wantTable(t, func(
		t *testing.T, nats *relaytest.Cluster, _ jetstream.JetStream, table *consumers.Table,
	) (stop func()) {
		t.Helper()
		return testdb.Background(t, func(ctx context.Context) {
			cmd := exec.CommandContext(ctx, "node", "built/search.js")
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "NATS="+nats.URL(), "STREAM="+relay.StreamName(ledgertest.Origin),
				"DATABASE_URL="+table.Pool.Config().ConnString())
			if said, err := cmd.CombinedOutput(); ctx.Err() == nil {
				t.Errorf("the consumer has ended: %v\n%s", err, said)
			}
		})
	})
}
