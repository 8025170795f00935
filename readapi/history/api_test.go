package history_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"novelgate/events"
	"novelgate/internal/testdb"
	"novelgate/readapi/history"
)

func TestPages(t *testing.T) {
	t.Parallel()
	a := newArchive(t, nil)
	response := a.open(t.Context(), t, a.otto, "/api/events", ndjson)
	want, _, err := response.lines(0)
	if err != nil || response.header.Get("Content-Type") != ndjson || len(want) < 7 {
		t.Fatalf("%d lines, %v", len(want), err)
	}
	var got []string
	path := "/api/events?limit=3"
	var last answer
	for next := ""; ; {
		last = a.get(t, a.otto, path+next)
		got = append(got, last.ids(t)...)
		if last.body["nextCursor"] == nil {
			break
		}
		next = "&cursor=" + last.str("nextCursor")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-stream +pages):\n%s", diff)
	}
	// The cursor of the last page finds later events.
	a.publish(t, "Genji")
	if more := a.get(t, a.otto, path+"&cursor="+last.str("cursor")); len(more.ids(t)) != 1 {
		t.Errorf("later: %s", more.text)
	}
	if now := a.get(t, a.otto, path+"&cursor=now"); len(now.ids(t)) != 0 || now.body["nextCursor"] != nil {
		t.Errorf("now: %s", now.text)
	}
	limited, _, err := a.open(t.Context(), t, a.otto, "/api/events?limit=2", "text/html, "+ndjson+";q=0.9").lines(0)
	if diff := cmp.Diff(want[:2], limited); diff != "" || err != nil {
		t.Errorf("two lines: %v\n%s", err, diff)
	}
}

func TestOneEvent(t *testing.T) {
	t.Parallel()
	a := newArchive(t, nil)
	got := a.get(t, a.otto, "/api/events/0")
	if got.status != http.StatusOK || got.header.Get("Content-Type") != "application/cloudevents+json" ||
		got.str("logindex") != "0" ||
		got.str("type") != "person.key_issued.v1" || got.str("actor") != "staff:setup" {
		t.Errorf("%d %s", got.status, got.text)
	}
	for _, path := range []string{
		"/api/events/999999", "/api/events/-1", "/api/events/x", "/api/events/99999999999999999999",
		"/api/events/%00", "/api/events/%ff",
	} {
		if got := a.get(t, a.otto, path); got.status != http.StatusNotFound || got.str("code") != "not_found" {
			t.Errorf("%s: %d %s", path, got.status, got.text)
		}
	}
}

func TestOneStream(t *testing.T) {
	t.Parallel()
	a := newArchive(t, nil)
	n := a.publish(t, "Genji")
	path := "/api/streams/integration/" + a.partnerID.String()
	if got := a.get(t, a.otto, path); len(got.ids(t)) != 2 || strings.Contains(got.text, "Genji") {
		t.Errorf("%d %s", got.status, got.text)
	}
	if got := a.get(t, a.otto, path+"?type=integration.key_issued.v1"); len(got.ids(t)) != 1 {
		t.Errorf("%d %s", got.status, got.text)
	}
	for _, missing := range []string{
		"integration/" + uuid.NewString(), "integration/" + n.NovelID.String(), "integration/x",
		"novel/" + a.partnerID.String(), "novel/%00", "%ff/" + a.partnerID.String(), "%00/" + uuid.NewString(),
	} {
		if got := a.get(t, a.otto, "/api/streams/"+missing); got.status != http.StatusNotFound {
			t.Errorf("%s: %d %s", missing, got.status, got.text)
		}
	}
	for name, want := range map[string]int{
		"novel=" + n.NovelID.String(): 1, "integration=" + a.partnerID.String(): 2, "streamType=" + events.NovelStream: 1,
		// The first moment of the calendar and the nil UUID are normal values.
		"novel=" + uuid.Nil.String(): 0, "stream=" + uuid.Nil.String(): 0, "to=0001-01-01T00:00:00Z": 0,
	} {
		if got := a.get(t, a.otto, "/api/events?"+name); len(got.ids(t)) != want {
			t.Errorf("%s: %s", name, got.text)
		}
	}
}

func TestBadRequests(t *testing.T) {
	t.Parallel()
	a := newArchive(t, nil)
	stream := "/api/streams/integration/" + a.partnerID.String()
	for path, field := range map[string]string{
		"/api/events?limit=0":                      "limit",
		"/api/events?limit=1001":                   "limit",
		"/api/events?limit=x":                      "limit",
		"/api/events?cursor=%25":                   "cursor",
		"/api/events?cursor=YQA":                   "cursor", // a NUL inside
		"/api/access-log?cursor=YQA":               "cursor",
		"/api/events?after=-1":                     "after",
		"/api/events?after=5000":                   "after", // no event has it yet
		"/api/events?before=x":                     "before",
		"/api/events?stream=x":                     "stream",
		"/api/events?streamId=" + uuid.NewString(): "streamId",
		"/api/events?novel=Genji":                  "novel",
		"/api/events?integration=Fan":              "integration",
		"/api/events?type=":                        "type",
		"/api/events?type=a&type=b":                "type",
		"/api/events?type=%00":                     "type",
		"/api/events?type=%ff":                     "type",
		"/api/events?typ=novel":                    "typ", // a typing error must not look like no filter
		"/api/events?from=yesterday":               "from",
		"/api/events?to=2026-01-01":                "to",
		"/api/events?follow=true":                  "follow",
		"/api/events?follow=maybe":                 "follow",
		"/api/events?%zz":                          "query",
		"/api/events/0?limit=1":                    "limit",
		stream + "?stream=" + uuid.NewString():     "stream",
		stream + "?streamType=novel":               "streamType",
		"/api/access-log?limit=0":                  "limit",
		"/api/access-log?cursor=x":                 "cursor",
		"/api/access-log?type=x":                   "type",
	} {
		if got := a.get(t, a.otto, path); got.status != http.StatusBadRequest || got.str("code") != "invalid_request" ||
			got.str("field") != field {
			t.Errorf("%s: %d %s", path, got.status, got.text)
		}
	}
	for _, query := range []string{"before=5", "to=2026-01-01T00:00:00Z", "to=0001-01-01T00:00:00Z"} {
		response := a.open(t.Context(), t, a.otto, "/api/events?follow=true&"+query, ndjson)
		if response.status != http.StatusBadRequest {
			t.Errorf("follow with %s: %d", query, response.status)
		}
	}
	if list := a.entries(t); len(list) != 0 {
		t.Errorf("refused reads are on record: %v", list)
	}
	// Only reading detects a cursor of another database, so the read is recorded.
	elsewhere := history.Cursor{Position: 1, Batch: uuid.New()}
	got := a.get(t, a.otto, "/api/events?cursor="+elsewhere.String())
	if got.status != http.StatusBadRequest || got.str("field") != "cursor" {
		t.Errorf("cursor of another database: %d %s", got.status, got.text)
	}
	if list := a.entries(t); len(list) != 1 {
		t.Errorf("a read with a cursor of another database is not on record: %v", list)
	}
}

// TestEveryReadIsOnRecord reads in every way, and checks the access log.
func TestEveryReadIsOnRecord(t *testing.T) {
	t.Parallel()
	a := newArchive(t, nil)
	a.get(t, a.otto, "/api/events?type=person.key_issued.v1&limit=3")
	a.get(t, a.ada, "/api/events/1")
	a.get(t, a.otto, "/api/events/12345")
	a.get(t, a.otto, "/api/streams/integration/"+a.partnerID.String())
	if _, _, err := a.open(t.Context(), t, a.otto, "/api/events?limit=5", ndjson).lines(0); err != nil {
		t.Fatal(err)
	}
	shown := a.get(t, a.otto, "/api/access-log?limit=4")
	if items, ok := shown.body["items"].([]any); !ok || len(items) != 4 || shown.body["nextCursor"] == nil {
		t.Errorf("access log: %s", shown.text)
	}
	shown = a.get(t, a.ada, "/api/access-log?limit=1000&cursor="+shown.str("nextCursor"))
	if items, ok := shown.body["items"].([]any); !ok || len(items) > 2 || shown.body["nextCursor"] != nil {
		t.Errorf("access log, second page: %s", shown.text)
	}

	var got []string
	for _, e := range a.entriesEnded(t) {
		got = append(got, fmt.Sprintf("%s %s %s %s %d", e.Role, e.Name, e.Route, e.Parameters, *e.RowsReturned))
		if e.PersonID == nil || e.KeyID == nil || e.RequestID == "" || e.EndedAt.Before(e.BeganAt) ||
			e.Name == "otto" && *e.KeyID != a.ottosKeyID {
			t.Errorf("incomplete: %+v", e)
		}
	}
	want := []string{
		`auditor otto /api/events {"limit":"3","type":"person.key_issued.v1"} 3`,
		`staff ada /api/events/{logIndex} {"{logIndex}":"1"} 1`,
		`auditor otto /api/events/{logIndex} {"{logIndex}":"12345"} 0`,
		`auditor otto /api/streams/{streamType}/{streamId} {"{streamId}":"` + a.partnerID.String() +
			`","{streamType}":"integration"} 2`,
		`auditor otto /api/events {"limit":"5"} 5`,
		`auditor otto /api/access-log {"limit":"4"} 4`,
	}
	if diff := cmp.Diff(want, got[:len(want)]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestNoAnswerWithoutAnEntry: without an entry in the access log there is no answer.
func TestNoAnswerWithoutAnEntry(t *testing.T) {
	t.Parallel()
	a := newArchive(t, nil)
	testdb.Exec(t, a.pool, `ALTER TABLE access_log ADD CONSTRAINT refuse CHECK (false) NOT VALID`)
	for _, path := range []string{
		"/api/events", "/api/events/0", "/api/streams/integration/" + a.partnerID.String(), "/api/access-log",
	} {
		for _, accept := range []string{"", ndjson} {
			response := a.open(t.Context(), t, a.otto, path, accept)
			if response.status != http.StatusInternalServerError {
				t.Errorf("%s as %q: %d", path, accept, response.status)
			}
		}
	}
}

func TestAccessLogIsAppendOnly(t *testing.T) {
	t.Parallel()
	a := newArchive(t, nil)
	a.get(t, a.otto, "/api/events")
	a.entriesEnded(t)
	for _, statement := range []string{
		`UPDATE access_log SET rows_returned = 0`, `UPDATE access_log SET name = 'nobody'`,
		`UPDATE access_log SET parameters = '{}'`,
		`UPDATE access_log SET rows_returned = NULL, ended_at = NULL`, `DELETE FROM access_log`, `TRUNCATE access_log`,
		`SET session_replication_role = replica; DELETE FROM access_log`,
	} {
		if _, err := a.pool.Exec(t.Context(), statement); err == nil || !strings.Contains(err.Error(), "append-only") {
			t.Errorf("%s: %v", statement, err)
		}
	}
	// Only the end may be added to an entry, once.
	const open = `INSERT INTO access_log (role, name, request_id, route, parameters) VALUES ('cli', 'root', 'r', 'novelgate events list', '{}')`
	for statement, allowed := range map[string]bool{
		`UPDATE access_log SET rows_returned = 1, ended_at = now() WHERE ended_at IS NULL`:             true,
		`UPDATE access_log SET rows_returned = 1, ended_at = now(), name = 'x' WHERE ended_at IS NULL`: false,
	} {
		testdb.Exec(t, a.pool, open)
		if _, err := a.pool.Exec(t.Context(), statement); (err == nil) != allowed {
			t.Errorf("%s: %v", statement, err)
		}
	}
}
