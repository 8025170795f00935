package admin_test

import (
	"net/http"
	"testing"
)

// TestMismatches repeats every POST: with the same command in other words, and with another command.
func TestMismatches(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	key := d.send(t, d.ada, http.MethodPost, "/api/admin/integrations/"+d.integrationID+"/keys", "made", `{}`).str("keyId")
	barred := d.send(t, d.ada, http.MethodPost, "/api/admin/novels/reject", "made", `{"novel":"Barred","reason":"r"}`).str(
		"novelId")
	for _, c := range []struct{ path, original, same, other string }{
		{
			"/api/admin/integrations", `{"name":"Reader","capabilities":["novels","posts"],"review":false}`,
			` {"review" : false, "capabilities":["posts","novels","posts"], "name":" Reader "} `,
			`{"name":"Reader","capabilities":["novels"],"review":false}`,
		},
		{
			"/api/admin/integrations/" + d.integrationID + "/keys", `{"expiresInSeconds":3600}`, `{ "expiresInSeconds":3600}`,
			`{"expiresInSeconds":3601}`,
		},
		{"/api/admin/keys/" + key + "/rotate", `{"overlapSeconds":10}`, `{"overlapSeconds": 10}`, `{}`},
		{
			"/api/admin/novels", `{"novel":"Genji","author":"M","reason":"ours"}`,
			`{"reason":"ours","author":" M ","novel":" GENJI ","genres":null}`,
			`{"novel":"Genji","author":"N","reason":"ours"}`,
		},
		{
			"/api/admin/novels/reject", `{"novel":"Heike","reason":"no"}`, `{"reason":"no","novel":" HEIKE"}`,
			`{"novel":"Heike","reason":"No."}`,
		},
		{"/api/admin/novels/" + barred + "/approve", `{"reason":"fine"}`, `{ "reason" : "fine" }`, `{"reason":"well"}`},
		{"/api/admin/novels/" + barred + "/reject", `{"reason":"no"}`, `{"reason":"\u006eo"}`, `{"reason":"never"}`},
	} {
		first := d.send(t, d.ada, http.MethodPost, c.path, "repeated", c.original)
		if first.status >= 300 || first.header.Get("Idempotent-Replayed") != "" ||
			first.header.Get("Idempotency-Mismatch") != "" {
			t.Errorf("%s: %d %s", c.path, first.status, first.text)
		}
		for body, mismatch := range map[string]string{c.original: "", c.same: "", c.other: "true"} {
			a := d.send(t, d.ada, http.MethodPost, c.path, "repeated", body)
			if a.status != http.StatusOK || a.header.Get("Idempotent-Replayed") != "true" ||
				a.header.Get("Idempotency-Mismatch") != mismatch {
				t.Errorf("%s %s: %d, replayed %q, mismatch %q: %s", c.path, body, a.status, a.header.Get("Idempotent-Replayed"),
					a.header.Get("Idempotency-Mismatch"), a.text)
			}
		}
	}
	// What is kept is no use for guessing what the command was.
	var plain int
	if err := d.staff.Pool.QueryRow(t.Context(),
		`SELECT count(*) FROM events WHERE event_id = 'repeated' AND (fingerprint IS NULL OR salt IS NULL) AND event_source !~ '#'`).Scan(&plain); err != nil || plain != 0 {
		t.Errorf("%d commands without a fingerprint or a salt, %v", plain, err)
	}
}
