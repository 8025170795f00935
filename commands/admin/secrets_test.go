package admin_test

import (
	"net/http"
	"strings"
	"testing"
)

// TestKeysStaySecret looks for keys wherever they must not be: in the log, in errors, in events and in every other row.
func TestKeysStaySecret(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	made := d.send(t, d.ada, http.MethodPost, "/api/admin/integrations", "k-1",
		`{"name":"Second","capabilities":["posts"]}`)
	issued := d.send(t, d.ada, http.MethodPost, "/api/admin/integrations/"+d.integrationID+"/keys", "k-2", `{}`)
	rotated := d.send(t, d.ada, http.MethodPost, "/api/admin/keys/"+issued.str("keyId")+"/rotate", "k-3",
		`{"overlapSeconds":60}`)
	wrong := mistyped(d.ada)
	secrets := []string{
		d.ada, d.auditor, d.partner, d.expired, d.revokedPerson, wrong, made.str("apiKey"), issued.str("apiKey"),
		rotated.str("apiKey"),
	}

	var seen strings.Builder
	for _, key := range secrets {
		if len(key) != 40 {
			t.Fatalf("no key: %q", key)
		}
		for _, request := range [][2]string{
			{http.MethodGet, "/api/admin/integrations"},
			{http.MethodGet, "/api/admin/novels?cursor=%25"},
			{http.MethodPost, "/api/admin/novels"},
			{http.MethodGet, "/api/admin/integrations/" + d.integrationID + "/keys"},
		} {
			seen.WriteString(d.send(t, key, request[0], request[1], "", "{").text)
		}
	}
	seen.WriteString(d.log.String())
	var rows string
	const everythingSQL = `SELECT coalesce((SELECT string_agg(e::text, E'\n') FROM events e), '') || coalesce((SELECT string_agg(k::text, E'\n') FROM api_keys k), '')
|| coalesce((SELECT string_agg(k::text, E'\n') FROM person_keys k), '') || coalesce((SELECT string_agg(i::text, E'\n') FROM integrations i), '')`
	if err := d.staff.Pool.QueryRow(t.Context(), everythingSQL).Scan(&rows); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(rows, d.partner[:8]) {
		t.Fatal("the search does not see the keys' rows")
	}
	seen.WriteString(rows)
	for i, key := range secrets {
		if strings.Contains(seen.String(), key[10:]) { // the prefix may be shown
			t.Errorf("key %d is to be seen", i)
		}
	}
}
