package e2e_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"novelgate/events"
	"novelgate/internal/testdb"
	"novelgate/projections"
)

// replayed replays the log into an empty database, in batches of any size, and returns its URL.
func replayed(t testing.TB, recorded []events.Recorded) string {
	t.Helper()
	ctx := context.Background()
	scratch := testdb.New(t)
	connection := connect(t, scratch)
	defer func() { _ = connection.Close(ctx) }()
	all := append(projections.Inline(), projections.All()...)
	for len(recorded) > 0 {
		batch := recorded[:min(1+rand.IntN(500), len(recorded))]
		recorded = recorded[len(batch):]
		tx, err := connection.Begin(ctx)
		if err != nil {
			t.Fatalf("begin: %v", err)
		}
		for _, projection := range all {
			if err := projection.Apply(ctx, tx, batch); err != nil {
				t.Fatalf("replay %s: %v", projection.Name(), err)
			}
		}
		if err := tx.Commit(ctx); err != nil {
			t.Fatalf("commit: %v", err)
		}
	}
	return scratch
}
