package projections_test

import (
	"fmt"
	"testing"

	"novelgate/events"
	"novelgate/projections"
	"novelgate/projections/rebuild"
)

// A rebuild comes to what the log says, one event after another.
func TestRebuildEqualsNaiveFold(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	random := seeded(7)
	for round := range 5 {
		for part := range random.IntN(4) {
			log := fewAuthors(random.Uint64(), 1+random.IntN(60))
			for i := range log {
				if log[i].StreamType != events.PostStream || log[i].StreamVersion > 1 { // whose id derives from its key
					log[i].ID = fmt.Sprintf("%d-%d-%s", round, part, log[i].ID)
				}
				log[i].StreamID[14], log[i].StreamID[15] = byte(round), byte(part)
			}
			append1(t, pool, log...)
		}
		readAll(t, pool)
		for _, p := range projections.All() {
			if _, err := rebuild.Run(t.Context(),
				rebuild.Config{Pool: pool, Projection: p, ChunkSize: 1 + random.IntN(100), Logger: quiet()}); err != nil {
				t.Fatal(err)
			}
		}
		assertTables(t, pool)
	}
}
