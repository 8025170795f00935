package access_test

import (
	"sync"
	"testing"

	"novelgate/commands/access"
	"novelgate/internal/apikey"
	"novelgate/internal/testdb"
)

// TestGuessesShareQueries: a valid key does not wait for each earlier guess.
func TestGuessesShareQueries(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, secret := b.issue(t, 0)
	guess := func() {
		guessed, err := apikey.New(apikey.Partner)
		if err != nil {
			t.Error(err)
			return
		}
		b.want(t, guessed, access.ErrUnknown)
	}
	var wg sync.WaitGroup
	var holds []*held
	for range 2 { // the maximum number of concurrent queries
		h := b.queries.holdNext()
		wg.Go(guess)
		<-h.answered
		holds = append(holds, h)
	}
	const guesses = 300
	for range guesses {
		wg.Go(guess)
	}
	testdb.Eventually(t, "all guesses wait", func() bool { return b.keys.Waiting() == guesses })
	wg.Go(func() {
		b.want(t, secret, nil)
	})
	testdb.Eventually(t, "the good key waits", func() bool { return b.keys.Waiting() == guesses+1 })
	if got := b.pool.Stat().AcquiredConns(); got != 2 {
		t.Errorf("%d connections are in use, want 2", got)
	}
	for _, h := range holds {
		close(h.release)
	}
	wg.Wait()
	// Two that were blocked, and one for all others.
	if got := b.queries.count.Load(); got != 3 {
		t.Errorf("%d queries, want 3", got)
	}
}
