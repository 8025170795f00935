package committer_test

import (
	"fmt"
	"sync"
	"testing"

	"novelgate/aggregates/novel"
	"novelgate/commands/committer"
	"novelgate/internal/testdb"
)

// TestSlugRace creates titles that spell one slug in several lanes and replicas at once.
func TestSlugRace(t *testing.T) {
	t.Parallel()
	url := testdb.New(t)
	lanes := func(c *committer.Config) { c.Lanes = 4 }
	replicas := []*replica{newReplica(t, url, lanes), newReplica(t, url, lanes)}
	p := newPartner()
	marks := []string{"!", "?", ",", ";", ":", ".", "(", ")", "[", "]"}
	var mu sync.Mutex
	slugs := map[string]string{}
	var wg sync.WaitGroup
	for round := range scaled(20) {
		for i, mark := range marks {
			spelling := fmt.Sprintf("Same slug %d%s", round, mark)
			wg.Go(func() {
				a := replicas[i%2].submit(t.Context(), p.novel(spelling, spelling, novel.Fields{}))
				if a.String() != "created" {
					t.Errorf("%s: %v", spelling, a)
				}
				mu.Lock()
				defer mu.Unlock()
				if other, ok := slugs[a.novel.Slug]; ok {
					t.Errorf("%q and %q got the slug %s", spelling, other, a.novel.Slug)
				}
				slugs[a.novel.Slug] = spelling
			})
		}
	}
	wg.Wait()
	checkTruth(t, direct(t, url))
	t.Logf("%d novels, %d conflicts, %d bisections", len(slugs), replicas[0].conflicts()+replicas[1].conflicts(),
		replicas[0].bisections()+replicas[1].bisections())
}
