package e2e_test

import (
	"testing"
	"time"

	"novelgate/internal/testdb"
)

// TestMirrorKilled posts comments while the mirror, its PostgreSQL and that of the origin are killed, again and again,
// at any moment: the mirror ends as its origin, without a gap and with no event twice.
func TestMirrorKilled(t *testing.T) {
	t.Parallel()
	primary, service, load, _ := underLoad(t, 5*time.Millisecond)
	own := startServer(t, nil)
	flags := mirrorFlags(t, service, primary.url())
	mirror := serve(t, own.url(), flags...)
	mirrored := func() int64 {
		return value[int64](t, own.url(), `SELECT tree_size FROM mirror`)
	}
	moves := func() {
		t.Helper()
		before := mirrored()
		testdb.Eventually(t, "the mirror goes on", func() bool { return mirrored() > before })
	}
	moves()
	for _, crash := range []func(){
		func() {
			mirror.kill()
			load.book.await(50)
			mirror = serve(t, own.url(), flags...)
		},
		func() {
			own.crash(t)
			own.start(t)
		},
		func() {
			primary.crash(t)
			primary.start(t)
		},
	} {
		for range 2 {
			load.book.await(20)
			crash()
			moves()
		}
	}
	load.settle(t, service, primary.url())
	wantMirrored(t, service.URL, primary.url(), mirror.URL, own.url())
}
