package e2e_test

import (
	"math/rand/v2"
	"testing"

	"novelgate/internal/testdb"
)

// TestKilledBesideAnother kills one of two replicas at a time, while both are used and either of them projects.
func TestKilledBesideAnother(t *testing.T) {
	t.Parallel()
	database := startServer(t, nil)
	replicas := startTwo(t, database.url())
	wantChain := watchCheckpoints(t, database.url())
	l := newLoad(t, newPartner(t, database.url()))
	l.aim(replicas[:]...)
	l.start(16)
	kills, all := 2, replicas[:]
	for kill := range kills {
		l.book.await(150 + rand.IntN(200))
		replicas[kill%2].kill()
		l.book.await(100)
		replicas[kill%2] = servePatiently(t, database.url())
		all = append(all, replicas[kill%2])
		l.aim(replicas[:]...)
	}
	l.book.await(100)
	testdb.Eventually(t, "a replica meets another one at a checkpoint",
		func() bool { return competed(all...) })
	if seen := l.settle(t, replicas[0], database.url()); seen.unknown == 0 {
		t.Error("no kill met a command on its way: this test has shown nothing")
	}
	t.Logf("%d kills, %d moves of checkpoints", kills, wantChain())
}
