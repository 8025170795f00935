package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"novelgate/internal/testdb"
)

// TestImportThroughAFailover: the primary is lost while `novelgate import` sends lines and two replicas execute them.
// The promoted standby lacks the last ones. The command still completes; every line is stored once, and every reply
// under its parent. NOVELGATE_TEST_FAILOVERS sets the number of rounds.
func TestImportThroughAFailover(t *testing.T) {
	t.Parallel()
	for round := range failovers(t, 1) {
		t.Run(fmt.Sprint(round), importThroughAFailover)
	}
}

func importThroughAFailover(t *testing.T) {
	primary, standby := startPair(t)
	both := primaryOf(t, primary, standby) + "&connect_timeout=30"
	replicas := []*Service{serve(t, both), serve(t, both)}
	p := newPartner(t, primary.url(), "--capability", "import", "--lines-per-minute", "10000000")
	const n = 15_000
	lines, parents := thread(t, "Failed over", n)
	file := writeFile(t, "lines.ndjson", strings.Join(lines, ""))
	primary.awaitStandby(t, standby)

	command := launch(t, "import", file, "--url", replicas[0].URL, "--key", p.APIKey, "--json")
	const stored = `SELECT count(*) FROM events WHERE event_type = 'post.imported.v1'`
	reached := func(count int) {
		t.Helper()
		testdb.Eventually(t, "lines are stored", func() bool { return value[int](t, primary.url(), stored) > count })
	}
	reached(rand.IntN(n / 4))
	standby.cut(t)
	replicated := value[int](t, standby.url(), stored)
	reached(replicated)
	time.Sleep(rand.N(time.Second)) // the moment of the crash, within a chunk
	primary.crash(t)
	standby.promote(t)
	select {
	case <-command.exited:
	case <-time.After(patience):
		t.Fatalf("the command does not end\n%s", command.stderr)
	}
	if code := command.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit code %d\n%s\n%s", code, command.stdout, command.stderr)
	}

	if got := value[int](t, standby.url(), stored); got != n {
		t.Errorf("%d comments are stored, want %d", got, n)
	}
	const replies = `SELECT array_agg(c.event_id || ' ' || coalesce(p.event_id, '')) FROM events AS c
		LEFT JOIN events AS p ON p.stream_id = (c.data->>'parentPostId')::uuid AND p.stream_version = 1
		WHERE c.event_type = 'post.imported.v1'`
	for _, pair := range value[[]string](t, standby.url(), replies) {
		key, parent, _ := strings.Cut(pair, " ")
		if parent != parents[key] {
			t.Errorf("%s answers %q, want %q", key, parent, parents[key])
		}
	}
	testdb.Eventually(t, "the end is in the log", func() bool {
		return value[bool](t, standby.url(), `SELECT count(*) > 0 FROM events WHERE event_type = 'integration.import_completed.v1'`)
	})
	wantSoundLog(t, standby.url())
}
