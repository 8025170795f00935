package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"novelgate/internal/testdb"
)

// storedComments lists comments in the tables, without values that differ between databases.
const storedComments = `SELECT concat_ws('|', e.event_id, e.personal, n.title, p.written_at, p.depth, p.chapter_number,
	(SELECT f.event_id FROM events f WHERE f.stream_id = p.parent_post_id AND f.stream_version = 1),
	(SELECT r.event_id FROM events r WHERE r.stream_id = p.root_post_id AND r.stream_version = 1))
FROM posts p JOIN events e ON e.stream_id = p.post_id AND e.stream_version = 1 JOIN novels n ON n.novel_id = p.novel_id ORDER BY 1`

// TestImportSurvivesKills kills the service at random moments while it processes an import that two replicas share, and
// compares what is left with the same comments sent live. NOVELGATE_TEST_IMPORT_LINES sets the number of comments.
func TestImportSurvivesKills(t *testing.T) {
	t.Parallel()
	testdb.SkipShort(t)
	n := scaled(t, "NOVELGATE_TEST_IMPORT_LINES", 12_000)
	kills := min(10, max(4, n/100_000))
	databaseURL, liveURL := testdb.New(t), testdb.New(t)
	title := Unique("Killed")
	lines, parents := thread(t, title, n)
	for k, line := range lines {
		written := fmt.Sprintf(`"timestamp":"2020-01-01T00:%02d:%02dZ","uuid"`, k/60%60, k%60)
		lines[k] = strings.Replace(line, `"uuid"`, written, 1)
	}

	began := time.Now()
	live := Start(t, liveURL).NewImporter(t, Fields{"postsPerMinute": 100_000_000})
	sendLive(t, live, lines, parents)
	t.Logf("%d comments sent live in %v", n, time.Since(began))

	replicas := []*Service{Start(t, databaseURL), Start(t, databaseURL)}
	p := replicas[0].NewImporter(t)
	i := p.OpenImport(t)
	began = time.Now()
	spoiled, wants := spoil(t, lines)
	for part := range slices.Chunk(spoiled, 4_000) {
		i.Put(t, strings.Join(part, ""))
	}
	i.Complete(t)
	for round := range kills {
		done := round*n/(2*kills) + rand.IntN(n/(2*kills))
		i.await(t, "lines are processed", func(now BulkImport) bool {
			return now.Created+now.Waiting > done || now.State == "completed"
		})
		victim := round % 2
		replicas[victim].kill()
		replicas[victim] = Start(t, databaseURL)
		p.Service = replicas[victim]
	}
	for step := range 10 { // an end may be further away than a test waits for
		i.await(t, "lines are processed", func(now BulkImport) bool { return now.Created > n*step/10 })
	}
	ended := i.Finish(t)
	t.Logf("%d lines imported with %d kills in %v; most memory %v", len(spoiled), kills, time.Since(began),
		[]string{replicas[0].mostMemory(t), replicas[1].mostMemory(t)})
	if ended.Created != n || ended.Failed != len(spoiled)-n || ended.ParentMissing != 0 {
		t.Errorf("import %+v", ended)
	}
	results := i.Results(t, "")
	if len(results) != len(spoiled) {
		t.Errorf("%d outcomes, want %d", len(results), len(spoiled))
	}
	for k, r := range results {
		if r.Line != k+1 || r.Status != wants[k] {
			t.Fatalf("outcome %d is %+v, want %s", k+1, r, wants[k])
		}
	}
	awaitAnnounced(t, databaseURL)
	wantReplayed(t, databaseURL)
	awaitProjections(t, liveURL, readLog(t, liveURL))
	want, got := rowsOf(t, liveURL, storedComments), rowsOf(t, databaseURL, storedComments)
	if diff := without(want, got); len(want) != n || len(got) != n || len(diff) > 0 {
		t.Errorf("%d comments live, %d imported; missing: %.5v", len(want), len(got), diff)
	}
}

// awaitAnnounced waits for the event of a completed import, the only one in its database.
func awaitAnnounced(t testing.TB, databaseURL string) {
	t.Helper()
	testdb.Eventually(t, "the end of the import is in the log", func() bool {
		return value[int](t, databaseURL, `SELECT count(*) FROM events WHERE event_type = 'integration.import_completed.v1'`) == 1
	})
}

func rowsOf(t testing.TB, databaseURL, query string) []string {
	t.Helper()
	return value[[]string](t, databaseURL, "SELECT array_agg(r) FROM ("+query+") AS q (r)")
}

// sendLive sends the bodies of lines to the live interface, parents first.
func sendLive(t testing.TB, p *Partner, lines []string, parents map[string]string) {
	t.Helper()
	byKey := map[string][]byte{}
	for _, line := range lines {
		_, rest, _ := strings.Cut(line, `"body":`)
		body, rest, _ := strings.Cut(rest, `,"idempotencyKey":"`)
		key, _, _ := strings.Cut(rest, `"`)
		byKey[key] = []byte(body)
	}
	for sent := map[string]bool{}; len(sent) < len(byKey); {
		var level []string
		for key := range byKey {
			if parent := parents[key]; !sent[key] && (parent == "" || sent[parent]) {
				level = append(level, key)
			}
		}
		keys := make(chan string)
		var senders sync.WaitGroup
		for range 64 {
			senders.Go(func() {
				for key := range keys {
					for a := (answer{}); !a.succeeded(); {
						a = p.send(t, p.Service.URL, PostsPath, key, byKey[key], false)
					}
				}
			})
		}
		for _, key := range level {
			keys <- key
			sent[key] = true
		}
		close(keys)
		senders.Wait()
	}
}

// TestOutcomesThatWereNotSavedComeAgain sets the spool back to before the execution, as a kill between commit and save
// does. The lines are executed again with the same outcomes.
func TestOutcomesThatWereNotSavedComeAgain(t *testing.T) {
	t.Parallel()
	databaseURL := testdb.New(t)
	p := Start(t, databaseURL).NewImporter(t, Fields{"linesPerMinute": 0})
	title := Unique("Again")
	i := p.OpenImport(t)
	i.Put(t, NovelLine(t, "created", Fields{"novel": title})+
		NovelLine(t, "updated", Fields{"novel": title, "author": "A"})+
		PostLine(t, "reply", Comment(title).With(Fields{"parent_uuid": "parent"}))+PostLine(t, "parent", Comment(title))+
		PostLine(t, "parent", Comment(title).With(Fields{"content": "Another."}))+PostLine(t, "bad", Comment(""))+
		PostLine(t, "orphan", Comment(title).With(Fields{"parent_uuid": "nothing"})))
	i.Complete(t)
	execute(t, databaseURL, `CREATE TABLE kept_imports AS SELECT * FROM imports`,
		`CREATE TABLE kept_chunks AS SELECT * FROM import_chunks`)
	p.Service.Integration(t, "limit", p.IntegrationID, "--lines-per-minute", "100000")
	execute(t, databaseURL, `UPDATE imports SET resume_at = '-infinity'`,
		`UPDATE kept_imports SET resume_at = '-infinity'`)
	before, want := i.Finish(t), i.Results(t, "")
	awaitAnnounced(t, databaseURL)
	log := len(readLog(t, databaseURL))

	execute(t, databaseURL, `BEGIN; DELETE FROM import_waiting; DELETE FROM import_parts; DELETE FROM import_chunks;
		DELETE FROM imports;
		INSERT INTO imports SELECT * FROM kept_imports; INSERT INTO import_chunks SELECT * FROM kept_chunks;
		UPDATE import_chunks SET holder = NULL; COMMIT`)
	after, got := i.Finish(t), i.Results(t, "")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("outcomes (-before +after)\n%s", diff)
	}
	if after != before || before.Created != 4 || before.Updated != 1 || before.Replayed != 1 || before.Failed != 1 {
		t.Errorf("import %+v before, %+v after", before, after)
	}
	if now := len(readLog(t, databaseURL)); now != log {
		t.Errorf("%d events, want %d", now, log)
	}
}

// TestLeaseOfADeadWorkerExpires: a leased chunk is executed only after the lease has expired.
func TestLeaseOfADeadWorkerExpires(t *testing.T) {
	t.Parallel()
	databaseURL := testdb.New(t)
	p := Start(t, databaseURL).NewImporter(t, Fields{"linesPerMinute": 0})
	i, free := p.OpenImport(t), p.OpenImport(t)
	title := Unique("Leased")
	i.Put(t, PostLine(t, "held", Comment(title)))
	free.Put(t, PostLine(t, "free", Comment(title)))
	execute(t, databaseURL, fmt.Sprintf(`UPDATE import_chunks
		SET holder = gen_random_uuid(), leased_until = now() + interval '1 hour' WHERE import_id = '%s'`, i.ImportID))
	p.Service.Integration(t, "limit", p.IntegrationID, "--lines-per-minute", "100000")
	execute(t, databaseURL, `UPDATE imports SET resume_at = '-infinity'`)
	free.Finish(t)
	if now := i.Show(t); now.Created != 0 {
		t.Errorf("a leased line was executed: %+v", now)
	}
	execute(t, databaseURL, `UPDATE import_chunks SET leased_until = now() - interval '1 second' WHERE holder IS NOT NULL`)
	if ended := i.Finish(t); ended.Created != 1 {
		t.Errorf("import %+v", ended)
	}
}
