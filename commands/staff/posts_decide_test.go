package staff_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"novelgate/commands/staff"
	"novelgate/events"
	"novelgate/internal/testdb"
)

// TestDecidePosts: each post has its outcome. A retry repeats nothing, completes an interrupted command, and applies
// nothing of another command with the same key.
func TestDecidePosts(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	partner := uuid.MustParse(d.integrationID)
	var ids []string
	for i := range 60 { // two transactions
		c := comment(partner, "u", "key "+strings.Repeat("x", i))
		appendAll(t, d.staff, c)
		ids = append(ids, `"`+c.StreamID.String()+`"`)
	}
	first := uuid.MustParse(strings.Trim(ids[0], `"`))
	testdb.Must(d.staff.HidePost(t.Context(), first, "before"))(t)
	const path = "/api/admin/posts/decisions"
	body := func(ids []string, reason string) string {
		return `{"decision":"hide","postIds":[` + strings.Join(ids, ",") + `],"reason":"` + reason + `"}`
	}
	hidden := func() int {
		return testdb.Value[int](t, d.staff.Pool, `SELECT count(*) FROM events WHERE event_type = 'post.hidden.v1'`)
	}
	all := append(ids[:60:60], `"`+uuid.NewString()+`"`)
	a := d.send(t, d.ada, http.MethodPost, path, "k", body(all, "spam"))
	items := a.items(t)
	refused := func(i int) string {
		p, _ := items[i]["problem"].(map[string]any)
		code, _ := p["code"].(string)
		return code
	}
	if len(items) != 61 || refused(0) != "invalid_transition" || refused(1) != "" || refused(60) != "not_found" ||
		hidden() != 60 || a.header.Get("Idempotent-Replayed") != "" {
		t.Fatalf("%d hidden: %s", hidden(), a.text)
	}
	again := d.send(t, d.ada, http.MethodPost, path, "k", body(all, "spam"))
	if again.text != a.text || again.header.Get("Idempotent-Replayed") != "true" || hidden() != 60 {
		t.Errorf("retry: %d hidden: %v %s", hidden(), again.header, again.text)
	}
	more := comment(partner, "u", "more")
	appendAll(t, d.staff, more)
	other := d.send(t, d.ada, http.MethodPost, path, "k", body([]string{ids[1], `"` + more.StreamID.String() + `"`}, "spam"))
	if other.header.Get("Idempotency-Mismatch") != "true" || hidden() != 60 || len(other.items(t)) != 1 {
		t.Errorf("another command: %d hidden: %v %s", hidden(), other.header, other.text)
	}
	interrupted := *d.staff
	interrupted.Delivery = &staff.Delivery{Key: "i", Source: "staff/x/posts/decisions", Canonical: []byte("{}")}
	extra := comment(partner, "u", "extra")
	appendAll(t, d.staff, extra)
	some := []uuid.UUID{more.StreamID, extra.StreamID}
	for n := range 2 { // the first time the command stops after one
		decided := testdb.Must(interrupted.DecidePosts(t.Context(), staff.Hide, some[:n+1], "r"))(t)
		if decided.Items[n].Problem != nil || decided.Items[0].Problem != nil || hidden() != 61+n {
			t.Errorf("%d of an interrupted command: %d hidden, %+v", n+1, hidden(), decided)
		}
	}
	for bad, field := range map[string]string{
		body(nil, "r"): "postIds", body([]string{ids[0], ids[0]}, "r"): "postIds", body(ids, " "): "reason",
		strings.Replace(body(ids, "r"), "hide", "drop", 1): "decision", body([]string{`"x"`}, "r"): "postIds[0]",
	} {
		if a := d.post(t, path, bad); a.code() != "invalid_request" || a.str("field") != field {
			t.Errorf("%.60s: %s", bad, a.text)
		}
	}
	for _, e := range stream(t, d.staff, first)[1:] {
		if e != (events.PostHidden{Reason: "before"}) {
			t.Errorf("%+v", e)
		}
	}
}
