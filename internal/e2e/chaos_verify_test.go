package e2e_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
)

// outcome is how the commands of a ledger have ended.
type outcome struct{ acknowledged, unknown, unknownStored int }

// reconcile holds the ledger against the log, and then against replays of every command: what was acknowledged is on
// record once with the identifiers that were answered, the rest once or not at all, and nothing else is. Call it when
// nobody sends.
func (l *deliveryBook) reconcile(t testing.TB, p *Partner, r *Service, databaseURL string) outcome {
	t.Helper()
	stored := deliveries(t, databaseURL, p.IntegrationID)
	var seen outcome
	for _, c := range l.commands {
		streams := stored[c.path+" "+c.key]
		delete(stored, c.path+" "+c.key)
		switch {
		case len(streams) > 1:
			t.Errorf("%s %s is on record %d times", c.path, c.key, len(streams))
		case c.answered == nil:
			seen.unknown++
			seen.unknownStored += len(streams)
		case len(streams) == 0:
			t.Errorf("%s %s was acknowledged and is lost", c.path, c.key)
		case streams[0] != c.answered.stream():
			t.Errorf("%s %s is in stream %s, the answer said %s", c.path, c.key, streams[0], c.answered.stream())
		default:
			seen.acknowledged++
		}
		if c.parent != nil && c.answered != nil &&
			(c.answered.ParentPostID == nil || *c.answered.ParentPostID != c.parent.answered.PostID) {
			t.Errorf("the parent of %s is %v, want %s", c.key, c.answered.ParentPostID, c.parent.answered.PostID)
		}
		if t.Failed() {
			return seen // one is enough
		}
	}
	for name := range stored {
		t.Errorf("%s is on record and was never sent", name)
		break
	}
	l.replay(t, p, r, deliveries(t, databaseURL, p.IntegrationID))
	return seen
}

// replay sends every command once more. stored is what was on record before.
func (l *deliveryBook) replay(t testing.TB, p *Partner, r *Service, stored map[string][]uuid.UUID) {
	t.Helper()
	began, work := time.Now(), make(chan *command)
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for c := range work {
				a, repeated := p.send(t, r.URL, c.path, c.key, c.body, false), false
				for ; a.unavailable() && time.Since(began) < patience; repeated = true { // a stall of the machine: the same again
					time.Sleep(50 * time.Millisecond)
					a = p.send(t, r.URL, c.path, c.key, c.body, false)
				}
				was := len(stored[c.path+" "+c.key]) == 1
				isReplay := a.status == http.StatusOK && a.header.Get("Idempotent-Replayed") == "true" &&
					a.header.Get("Idempotency-Mismatch") == ""
				isNew := (a.status == http.StatusCreated || a.status == http.StatusOK) && a.header.Get("Idempotent-Replayed") == ""
				if a.err != nil || was && !isReplay || !was && !isNew && (!repeated || !isReplay) {
					t.Errorf("replay of %s %s, on record before: %v, is answered with %d %v %v\n%s", c.path, c.key, was, a.status,
						a.header, a.err, a.body)
				}
				l.enter(c, a) // compares the identifiers
			}
		})
	}
	for _, c := range l.commands[:len(l.commands):len(l.commands)] {
		if t.Failed() {
			break
		}
		work <- c
	}
	close(work)
	all.Wait()
}

// deliveries returns the streams in which a partner's commands are on record, by path and key.
func deliveries(t testing.TB, databaseURL, integrationID string) map[string][]uuid.UUID {
	t.Helper()
	connection := connect(t, databaseURL)
	defer func() { _ = connection.Close(context.Background()) }()
	source := "integrations/" + integrationID
	rows, err := connection.Query(context.Background(),
		`SELECT event_id, event_source, stream_id FROM event_log WHERE event_source IN ($1, $2)`, source+"/posts",
		source+"/novels")
	if err != nil {
		t.Fatalf("read deliveries: %v", err)
	}
	defer rows.Close()
	found := map[string][]uuid.UUID{}
	for rows.Next() {
		var id, from string
		var stream uuid.UUID
		if err := rows.Scan(&id, &from, &stream); err != nil {
			t.Fatalf("read deliveries: %v", err)
		}
		path := NovelsPath
		if strings.HasSuffix(from, "/posts") {
			path = PostsPath
		}
		found[path+" "+id] = append(found[path+" "+id], stream)
	}
	if rows.Err() != nil {
		t.Fatalf("read deliveries: %v", rows.Err())
	}
	return found
}
