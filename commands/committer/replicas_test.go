package committer_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"novelgate/aggregates/novel"
	"novelgate/commands/committer"
	"novelgate/events"
	"novelgate/internal/testdb"
)

// delivery is one command as it was sent and answered.
type delivery struct {
	command *committer.Command
	answer
}

// TestReplicasAgree: two committers execute commands on few titles and few keys. The result must be consistent.
func TestReplicasAgree(t *testing.T) {
	t.Parallel()
	partners := []partner{newPartner(), newPartner()}
	for name, commands := range map[string]batch{
		"few titles":        crowd(partners, 1000),
		"updates of one":    updates(partners[0], 400),
		"creations of each": creations(partners, 400),
		"one slug":          sameSlug(partners[0], 50),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fight(t, commands)
		})
	}
}

// fight sends commands to two replicas and checks the result.
func fight(t *testing.T, commands batch) {
	t.Helper()
	url := testdb.New(t)
	replicas := []*replica{newReplica(t, url), newReplica(t, url)}

	const clients = 48
	start := time.Now()
	deliveries := make([]delivery, len(commands))
	var wg sync.WaitGroup
	for client := range clients {
		wg.Go(func() {
			// Adjacent commands go to different replicas at about the same time.
			for i := client; i < len(commands); i += clients {
				deliveries[i] = delivery{commands[i], replicas[i%2].submit(context.Background(), commands[i])}
			}
		})
	}
	wg.Wait()
	took := time.Since(start)

	pool := testdb.Pool(t, url)
	log := checkTruth(t, pool)
	checkAnswers(t, log, deliveries)
	const deadlocks = `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`
	if n := testdb.Value[int](t, pool, deadlocks); n > 0 {
		t.Errorf("%d deadlocks", n)
	}
	created := 0
	for _, recorded := range log {
		if _, ok := recorded.Event.(events.NovelCreated); ok {
			created++
		}
	}
	replicas[0].wantCharged(t, created)
	if n := replicas[0].bisections(t) + replicas[1].bisections(t); n > 0 {
		t.Errorf("%d batches were cut: decisions under the lock do not conflict", n)
	}
	t.Logf("%d commands, %d events in %d transactions, %s", len(commands), len(log),
		replicas[0].commits.Load()+replicas[1].commits.Load(), took)
}

// updates makes an owner change one novel over and over.
func updates(p partner, n int) batch {
	commands := batch{p.novel("create", "One title", novel.Fields{})}
	for i := range n {
		commands = append(commands, p.novel(fmt.Sprint("key-", i), "One title", novel.Fields{Synopsis: new(fmt.Sprint(i))}))
	}
	return commands
}

// creations makes all partners create the same titles concurrently, some by comments, which also open the thread.
func creations(partners []partner, n int) batch {
	var commands batch
	for i := range n / 8 {
		spelling := fmt.Sprint("Title ", i)
		for j := range 8 {
			p := partners[j/2%2]
			if i%2 == 0 {
				commands = append(commands, p.novel(fmt.Sprint("novel-", i, "-", j/4), spelling, novel.Fields{}))
			} else {
				commands = append(commands, p.post(fmt.Sprint("post-", i, "-", j/4), spelling))
			}
		}
	}
	return commands
}

// sameSlug makes titles of which ten each have the same slug.
func sameSlug(p partner, n int) batch {
	var commands batch
	for i := range n {
		spelling := fmt.Sprintf("Same slug %d%c", i/10, "!?,;:.()[]"[i%10])
		commands = append(commands, p.novel(spelling, spelling, novel.Fields{}))
	}
	return commands
}

// crowd makes commands on a dozen titles, with keys that occur about three times each, on the same title and on others.
func crowd(partners []partner, n int) batch {
	random := rand.New(rand.NewPCG(1, 2))
	titles := make([]string, 12)
	for i := range titles {
		titles[i] = fmt.Sprintf("Shared Title %d", i%10) // two of them twice as often
	}
	commands := make(batch, 0, n+2)
	for len(commands) < n {
		p := partners[random.IntN(len(partners))]
		spelling := titles[random.IntN(len(titles))]
		if random.IntN(20) == 0 {
			spelling = fmt.Sprintf("Rare title %d", random.IntN(n/20)) // creations go on until the end
		}
		var command *committer.Command
		switch key := fmt.Sprintf("key-%d", random.IntN(n/5)); random.IntN(4) {
		case 0:
			command = p.novel(key, spelling, novel.Fields{Synopsis: new(fmt.Sprint("synopsis ", random.IntN(5)))})
		case 1:
			command = p.reply(key, spelling, fmt.Sprintf("key-%d", random.IntN(n/5)))
		default:
			command = p.post(key, spelling)
		}
		commands = append(commands, command)
		if random.IntN(3) == 0 {
			commands = append(commands, command) // to both replicas at once
		}
	}
	return commands
}

// checkAnswers compares the answers with the log.
func checkAnswers(t *testing.T, log []events.Recorded, deliveries []delivery) {
	t.Helper()
	stored := map[[2]string]events.Recorded{}
	slugs := map[uuid.UUID]string{}
	unclaimed := map[[2]string]bool{} // first deliveries without an answer
	for _, recorded := range log {
		ref := [2]string{recorded.Source, recorded.ID}
		stored[ref] = recorded
		if created, ok := recorded.Event.(events.NovelCreated); ok {
			slugs[recorded.StreamID] = created.Slug
		}
		if recorded.StreamType == events.PostStream ||
			recorded.Source == events.NovelsSource(integrationOf(recorded.Source)) {
			unclaimed[ref] = true
		}
	}
	claim := func(ref [2]string) {
		if !unclaimed[ref] {
			t.Errorf("%v: first delivery was answered twice or is not in the log", ref)
		}
		delete(unclaimed, ref)
	}
	for _, d := range deliveries {
		cmd := d.command
		ref := [2]string{events.NovelsSource(cmd.Caller.IntegrationID), cmd.Key}
		if cmd.Comment != nil {
			ref[0] = events.PostsSource(cmd.Caller.IntegrationID)
		}
		recorded, known := stored[ref]
		switch {
		case cmd.Comment == nil && errors.Is(d.err, committer.ErrKeyMisused):
			if !known || recorded.StreamID == events.NovelID(cmd.FoldedTitle) {
				t.Errorf("%v: %v, but the log says %+v", ref, d.err, recorded)
			}
			continue
		case d.err != nil:
			t.Errorf("%v: %v", ref, d.err)
			continue
		case cmd.Comment != nil:
			imported, _ := recorded.Event.(events.PostImported)
			if recorded.StreamID != d.PostID || imported.ThreadID != d.ThreadID ||
				!equal(imported.ParentPostID, d.ParentPostID) || slugs[imported.NovelID] != d.Slug {
				t.Errorf("%v: answer %+v, log %+v", ref, d.Result, recorded)
			}
		case d.Outcome == novel.Foreign || d.Replayed:
		case recorded.StreamID != d.NovelID || (d.Outcome == novel.Created) != (recorded.StreamVersion == 1):
			t.Errorf("%v: answer %+v, log %+v", ref, d.Result, recorded)
		}
		if cmd.Comment == nil && d.NovelID != events.NovelID(cmd.FoldedTitle) {
			t.Errorf("%v: answer %+v", ref, d.Result)
		}
		if d.Outcome != novel.Foreign && !d.Replayed {
			claim(ref)
		}
	}
	for ref := range maps.Keys(unclaimed) {
		t.Errorf("%v: in the log, but no answer was its first delivery", ref)
	}
}

func integrationOf(source string) uuid.UUID {
	const prefix = "integrations/"
	id, _ := uuid.Parse(source[len(prefix) : len(prefix)+36])
	return id
}

func equal(a, b *uuid.UUID) bool { return a == b || a != nil && b != nil && *a == *b }
