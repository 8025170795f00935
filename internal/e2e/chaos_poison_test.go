package e2e_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"novelgate/events"
	"novelgate/internal/testdb"
	"novelgate/projections"
)

// poisonSQL inserts an event that this program never writes.
const poisonSQL = `INSERT INTO events (log_index, stream_type, stream_id, stream_version, event_id, integration_id, event_source, event_type, data, personal, batch_id)
	VALUES ((SELECT coalesce(max(log_index) + 1, 0) FROM events), 'post', '%[1]s', 1, '%[2]s', '%[3]s', 'test', '%[4]s', '%[5]s', '{"uuid":"PLANTED-WORDS-OF-A-PERSON","username":"u","content":"c"}', gen_random_uuid())`

// poison inserts an event of a comment and returns its stream.
func poison(t *testing.T, databaseURL, eventType, data string) (stream string) {
	t.Helper()
	integration, key := uuid.UUID{15: 1}, uuid.NewString()
	stream = events.PostID(integration, key).String()
	insertEvents(t, databaseURL, fmt.Sprintf(poisonSQL, stream, key, integration, eventType, data))
	return stream
}

// repair makes the event valid for every projection, as an experienced superuser may.
func repair(t *testing.T, databaseURL, stream, data string) {
	t.Helper()
	execute(t, databaseURL,
		`ALTER TABLE events DISABLE TRIGGER events_no_update, DISABLE TRIGGER events_only_erasure`,
		fmt.Sprintf(`UPDATE events SET event_type = 'post.imported.v1', data = '%s' WHERE stream_id = '%s'`, data, stream),
		`ALTER TABLE events ENABLE TRIGGER events_no_update, ENABLE TRIGGER events_only_erasure`)
}

// TestPoisonEvent inserts an event that one projection, or all, cannot apply.
func TestPoisonEvent(t *testing.T) {
	t.Parallel()
	database := startServer(t, nil)
	r := servePatiently(t, database.url())
	p := newPartner(t, database.url())
	sent := 0
	post := func() {
		t.Helper()
		for range 20 {
			sent++
			if a := p.send(t, r.URL, PostsPath, fmt.Sprint("key-", sent),
				encode(comment("Poisoned", fmt.Sprint("reader ", sent), "x")), false); a.status != http.StatusCreated {
				t.Fatalf("comment %d is answered with %d %v\n%s", sent, a.status, a.err, a.body)
			}
		}
	}
	const body = `"novelId":"00000000-0000-0000-0000-000000000002",` +
		`"threadId":"00000000-0000-0000-0000-000000000003","writtenAt":"2026-01-01T00:00:00Z"`
	for name, c := range map[string]struct {
		eventType, data string
		failed          []string // projections that stop
		says            string
	}{
		"the projections of chapters cannot apply it": {
			"post.imported.v1", `{` + body + `,"chapterNumber":"abc"}`, []string{"posts", "activity"}, "numeric",
		},
		"nobody can decode it": {
			"post.imported.v1", `{` + body + `,"chapterNumber":1,"parentPostId":"nonsense"}`,
			readersOfPosts(),
			"post.imported.v1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			post()
			stream := poison(t, database.url(), c.eventType, c.data)
			post()
			testdb.Eventually(t, "the projections have stopped", func() bool {
				return value[int](t, database.url(), `SELECT count(*) FROM projections WHERE state = 'failed'`) == len(c.failed)
			})
			for _, projection := range r.Projections(t) {
				if stopped := slices.Contains(c.failed, projection.Name); stopped != (projection.State == "failed") ||
					stopped && (projection.Error == nil || !strings.Contains(*projection.Error, c.says)) {
					t.Errorf("%+v, want %v to have failed, because of %q", projection, c.failed, c.says)
				} else if stopped {
					wantNoSecret(t, "the error of a projection", []byte(*projection.Error))
				}
			}
			post() // ingest goes on
			for _, projection := range projections.All() {
				want := fmt.Sprintf(`novelgate_projection_failed{projection="%s"} %d`, projection.Name(),
					map[bool]int{true: 1}[slices.Contains(c.failed, projection.Name())])
				testdb.Eventually(t, "/metrics has "+want, func() bool { // for a second it has what the last scrape had
					return strings.Contains(r.metrics(t), want)
				})
			}
			testdb.Eventually(t, "the other projections go on", func() bool {
				return value[int](t, database.url(), `SELECT count(*) FROM projections WHERE state = 'running' AND position =
					(SELECT max(log_index) + 1 FROM events)`) == len(projections.All())-len(c.failed)
			})

			repair(t, database.url(), stream, `{`+body+`}`)
			for _, projection := range c.failed {
				r.MustCLI(t, "projection", "retry", projection)
			}
			count := wantSoundLog(t, database.url())
			t.Logf("%d comments were taken; %d events", sent, count)
		})
	}
	r.Refused(t, "projection", "retry", "nonsense")

	t.Run("a newer replica wrote it", func(t *testing.T) {
		stream := poison(t, database.url(), "post.imported.v99", `{}`)
		post()
		testdb.Eventually(t, "the projections wait for a newer replica", func() bool {
			out := r.CLI(t, "projection", "list", "--json")
			return strings.Count(out.Stdout, `"unknownEventType": "post.imported.v99"`) == len(readersOfPosts()) &&
				strings.Count(out.Stdout, `"running"`) == len(projections.All())
		})
		repair(t, database.url(), stream, `{`+body+`}`)
		wantSoundLog(t, database.url())
	})
}

// readersOfPosts returns the names of the asynchronous projections that read comments.
func readersOfPosts() (names []string) {
	for _, p := range projections.All() {
		if p.Streams() == nil || slices.Contains(p.Streams(), events.PostStream) {
			names = append(names, p.Name())
		}
	}
	return names
}

// TestInterruptedRebuildSaysWhatContinues: the same command continues a rebuild that an event has stopped, but not one
// whose tables a migration has changed meanwhile.
func TestInterruptedRebuildSaysWhatContinues(t *testing.T) {
	t.Parallel()
	databaseURL := testdb.New(t)
	rebuild := func(wantError string, continues bool) {
		t.Helper()
		out := RunCLI(t, databaseURL, "projection", "rebuild", "posts")
		if out.Code != 1 || !strings.Contains(out.Stderr, wantError) ||
			strings.Contains(out.Stderr, "The same command continues") != continues {
			t.Errorf("rebuild ended with %d\n%s", out.Code, out.Stderr)
		}
	}
	execute(t, databaseURL, `CREATE FUNCTION migrate() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN
		ALTER TABLE public.posts ADD COLUMN IF NOT EXISTS note text; END $$`,
		`CREATE EVENT TRIGGER migrate ON ddl_command_end WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION migrate()`)
	rebuild("the structure of the tables has changed during the rebuild: rebuild again", false)
	execute(t, databaseURL, `DROP EVENT TRIGGER migrate`)
	poison(t, databaseURL, "post.imported.v1", `{"chapterNumber":"twelve"}`)
	rebuild("cannot be applied", true)
}
