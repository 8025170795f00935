package relay_test

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"novelgate/events/ledger/ledgertest"
	"novelgate/events/relay"
)

// commentsVariable is the environment variable with the number of events of TestChaos.
const commentsVariable = "NOVELGATE_TEST_RELAY_COMMENTS"

// Whatever fails, each event is in the stream once and in its place: the relay is cancelled ten times, a server and
// then the leader are shut down, the cluster loses its quorum, and a second relay competes throughout.
func TestChaos(t *testing.T) {
	t.Parallel()
	n := 6000
	if value := os.Getenv(commentsVariable); value != "" {
		var err error
		if n, err = strconv.Atoi(value); err != nil {
			t.Fatal(err)
		}
	}
	b := setup(t, 3)
	name := relay.StreamName(ledgertest.Origin)
	b.start(b.Ledger, 3, nil)

	// grow appends a share of the events, and returns when the stream has grown by some of them.
	grow := func() {
		const shares = 14
		from, share := b.last(name), n/shares
		for left := share; left > 0; left -= 100 {
			b.append(comments(min(100, left))...)
		}
		want := from + uint64(rand.N(share))
		// Without a quorum the stream stands still, and an answer may take seconds.
		for end := time.Now().Add(2 * time.Second); time.Now().Before(end) && b.last(name) < want; {
			time.Sleep(time.Millisecond)
		}
	}
	for round := range 10 {
		stop := b.start(b.Ledger, 3, nil)
		grow()
		switch round {
		case 2: // any server
			b.nats.Stop(1)
			grow()
			b.nats.Start(1)
		case 4:
			if leader := b.nats.Leader(t.Context(), b.js, name); leader >= 0 {
				b.nats.Stop(leader)
				grow()
				b.nats.Start(leader)
			}
		case 6: // no quorum
			b.nats.Stop(0)
			b.nats.Stop(2)
			grow()
			b.nats.Start(0)
			b.nats.Start(2)
		}
		stop()
	}
	b.awaitRelayed()
	b.wantAll()
}
