package staff_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"novelgate/commands/staff"
	"novelgate/internal/problem"
	"novelgate/internal/testdb"
)

// TestMismatches repeats each kind of POST: with another form of the same command, and with another command.
func TestMismatches(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	key := d.send(t, d.ada, http.MethodPost, "/api/admin/integrations/"+d.integrationID+"/keys", "made", `{}`).str("keyId")
	barred := d.send(t, d.ada, http.MethodPost, "/api/admin/novels/reject", "made", `{"novel":"Barred","reason":"r"}`).str(
		"novelId")
	for _, c := range []struct{ path, original, same, other string }{
		{
			"/api/admin/integrations", `{"name":"Reader","capabilities":["novels","posts"],"review":false}`,
			` {"review" : false, "capabilities":["novels", "posts"], "name":"\u0052eader"} `,
			`{"name":"Reader","capabilities":["novels"],"review":false}`,
		},
		{
			"/api/admin/integrations/" + d.integrationID + "/keys", `{"expiresInSeconds":3600}`, `{ "expiresInSeconds":3600}`,
			`{"expiresInSeconds":3601}`,
		},
		{"/api/admin/keys/" + key + "/rotate", `{"overlapSeconds":10}`, `{"overlapSeconds": 10}`, `{}`},
		{
			"/api/admin/novels", `{"novel":"Genji","author":"M","reason":"ours"}`,
			`{"reason":"ours","author":"M","novel":"Genji"}`,
			`{"novel":"Genji","author":"N","reason":"ours"}`,
		},
		{
			"/api/admin/novels/reject", `{"novel":"Heike","reason":"no"}`, `{"reason":"no","novel":"Heike"}`,
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
	// The stored fingerprint must not allow guesses of the command.
	if plain := testdb.Value[int](t, d.staff.Pool,
		`SELECT count(*) FROM events WHERE event_id = 'repeated' AND (fingerprint IS NULL OR salt IS NULL) AND event_source !~ '#'`); plain != 0 {
		t.Errorf("%d commands without a fingerprint or a salt", plain)
	}
}

// TestDefectIsNoOutage: an error that a retry would not fix is a 500 and is logged.
func TestDefectIsNoOutage(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	const integrations = "/api/admin/integrations"
	id := d.post(t, integrations, `{"name":"Site"}`).str("integrationId")
	testdb.Exec(t, d.staff.Pool, `INSERT INTO events (log_index, stream_type, stream_id, stream_version, event_id, event_source, event_type, data, actor, batch_id)
		SELECT (SELECT max(log_index) + 1 FROM events), 'integration', $1, max(stream_version) + 1, 'k', 'staff/tests', 'integration.renamed.v1', '[]', 'staff:tests', gen_random_uuid() FROM events WHERE stream_id = $1`, id)
	a := d.post(t, integrations+"/"+id+"/keys", `{}`)
	if a.status != http.StatusInternalServerError || a.code() != "internal" {
		t.Errorf("%d %s", a.status, a.text)
	}
	if logged := d.log.String(); !strings.Contains(logged, "request failed") ||
		!strings.Contains(logged, "integration.renamed.v1") {
		t.Errorf("logged: %s", logged)
	}
}

// TestBusyErasureIsRetryable: another erasure of the author may be under way.
func TestBusyErasureIsRetryable(t *testing.T) {
	t.Parallel()
	p := staff.Problem(fmt.Errorf("erase: %w", staff.ErrBusy))
	if p.Code != problem.CodeUnavailable || p.RetryAfter == 0 {
		t.Errorf("%+v", p)
	}
}
