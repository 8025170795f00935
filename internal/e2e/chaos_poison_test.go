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

// poison inserts an event of a comment that this program never writes, and returns its stream.
func poison(t *testing.T, databaseURL, eventType, data string) (stream string) {
	t.Helper()
	integration, key := uuid.UUID{15: 1}, uuid.NewString()
	stream = events.PostID(integration, key).String()
	insertEvents(t, databaseURL, fmt.Sprintf(`INSERT INTO events (log_index, stream_type, stream_id, stream_version,
			event_id, integration_id, event_source, event_type, data, personal, batch_id)
		VALUES ((SELECT coalesce(max(log_index) + 1, 0) FROM events), 'post', '%s', 1, '%s', '%s', 'test', '%s', '%s',
			'{"uuid":"%s","username":"u","content":"c"}', gen_random_uuid())`, stream, key, integration, eventType, data,
		planted))
	return stream
}

// postBody has the members of a comment in the log that a projection needs.
const postBody = `"novelId":"00000000-0000-0000-0000-000000000002",` +
	`"threadId":"00000000-0000-0000-0000-000000000003","writtenAt":"2026-01-01T00:00:00Z"`

// repairPost makes a poison event a comment, as an experienced superuser may.
func repairPost(t *testing.T, databaseURL, stream string) {
	t.Helper()
	execute(t, databaseURL, `ALTER TABLE events DISABLE TRIGGER events_no_update, DISABLE TRIGGER events_only_erasure`,
		fmt.Sprintf(`UPDATE events SET event_type = 'post.imported.v1', data = '{%s}' WHERE stream_id = '%s'`, postBody,
			stream),
		`ALTER TABLE events ENABLE TRIGGER events_no_update, ENABLE TRIGGER events_only_erasure`)
}

// postReaders returns the asynchronous projections that read comments.
func postReaders() (names []string) {
	for _, p := range projections.All() {
		if p.Streams() == nil || slices.Contains(p.Streams(), events.PostStream) {
			names = append(names, p.Name())
		}
	}
	return names
}

// TestPoisonEvent inserts an event that nobody can decode, and then one that only a newer replica knows: staff see why
// projections stop or wait, ingest and the other projections go on, and a repaired event is applied. Packages
// projections and rebuild test every kind of poison.
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
			if a := p.comment(t, r, "Poisoned", fmt.Sprint("key-", sent)); a.Status != http.StatusCreated {
				t.Fatalf("comment %d is answered with %d %v\n%s", sent, a.Status, a.err, a.Body)
			}
		}
	}
	readers := postReaders()
	post()
	stream := poison(t, database.url(), "post.imported.v1", `{`+postBody+`,"chapterNumber":1,"parentPostId":"nonsense"}`)
	post() // ingest goes on
	testdb.Eventually(t, "the projections have stopped, and the others go on", func() bool {
		return value[int](t, database.url(), `SELECT count(*) FROM projections WHERE state = 'failed' OR
			state = 'running' AND position = (SELECT max(log_index) + 1 FROM events)`) == len(projections.All())
	})
	var listed []struct {
		Name, State string
		Error       *string
	}
	r.runJSON(t, &listed, "projection", "list")
	for _, projection := range listed {
		stopped := slices.Contains(readers, projection.Name)
		if stopped != (projection.State == "failed") ||
			stopped && (projection.Error == nil || !strings.Contains(*projection.Error, "post.imported.v1")) {
			t.Errorf("%+v, want %v to have failed", projection, readers)
		} else if stopped {
			wantNoSecret(t, "the error of a projection", []byte(*projection.Error))
		}
		want := fmt.Sprintf(`novelgate_projection_failed{projection="%s"} %d`, projection.Name,
			map[bool]int{true: 1}[stopped])
		testdb.Eventually(t, "/metrics has "+want, func() bool { // for a second it has what the last scrape had
			return strings.Contains(r.metrics(t), want)
		})
	}
	out := r.Refused(t, "projection", "rebuild", "posts")
	if !strings.Contains(out.Stderr, "cannot be applied") || !strings.Contains(out.Stderr, "The same command continues") {
		t.Errorf("rebuild: %s", out.Stderr)
	}
	repairPost(t, database.url(), stream)
	for _, projection := range readers {
		r.MustCLI(t, "projection", "retry", projection)
	}
	r.MustCLI(t, "projection", "rebuild", "posts")
	wantSoundLog(t, database.url())

	stream = poison(t, database.url(), "post.imported.v99", `{}`)
	post()
	testdb.Eventually(t, "the projections wait for a newer replica", func() bool {
		out := r.CLI(t, "projection", "list", "--json")
		return strings.Count(out.Stdout, `"unknownEventType": "post.imported.v99"`) == len(readers) &&
			strings.Count(out.Stdout, `"running"`) == len(projections.All())
	})
	repairPost(t, database.url(), stream)
	wantSoundLog(t, database.url())
}
