package admin_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/google/uuid"
)

func TestIntegrationLife(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	const path = "/api/admin/integrations"
	body := `{"name":"Reader App","capabilities":["novels"],"postsPerMinute":7,"novelsPerMinute":3,"review":true}`
	made := d.send(t, d.ada, http.MethodPost, path, "create-1", body)
	if made.status != http.StatusCreated || made.str("apiKey") == "" || made.body["postsPerMinute"] != 7.0 ||
		made.body["review"] != true || made.body["enabled"] != true {
		t.Fatalf("create: %d %s", made.status, made.text)
	}
	id := made.str("integrationId")
	if again := d.send(t, d.ada, http.MethodPost, path, "create-1", body); again.status != http.StatusOK ||
		again.str("integrationId") != id ||
		again.body["apiKey"] != nil || again.str("keyId") != made.str("keyId") ||
		again.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("create again: %d %s", again.status, again.text)
	}
	if taken := d.send(t, d.ada, http.MethodPost, path, "create-2", `{"name":"READER app"}`); taken.code() != "conflict" {
		t.Errorf("same name: %d %s", taken.status, taken.text)
	}
	if a := d.send(t, d.ada, http.MethodPatch, path+"/"+id, "",
		`{"enabled":false,"capabilities":["posts"],"postsPerMinute":9}`); a.status != http.StatusOK ||
		a.body["enabled"] != false || a.body["postsPerMinute"] != 9.0 || fmt.Sprint(a.body["capabilities"]) != "[posts]" ||
		a.body["novelsPerMinute"] != 3.0 {
		t.Errorf("change: %d %s", a.status, a.text)
	}
	if updates, known := made.body["novelUpdatesPerMinute"]; updates != nil || !known {
		t.Errorf("updates are limited from the start: %s", made.text)
	}
	for _, c := range []struct {
		body string
		want any
	}{
		{`{"novelUpdatesPerMinute":4}`, 4.0},
		{`{"novelsPerMinute":3}`, 4.0},
		{`{"novelUpdatesPerMinute":0}`, 0.0},
		{`{"novelUpdatesPerMinute":null}`, nil},
	} {
		if a := d.send(t, d.ada, http.MethodPatch, path+"/"+id, "", c.body); a.status != http.StatusOK ||
			a.body["novelUpdatesPerMinute"] != c.want || a.body["novelsPerMinute"] != 3.0 {
			t.Errorf("%s: %d %s", c.body, a.status, a.text)
		}
	}
	if a := d.send(t, d.ada, http.MethodGet, path+"/"+id, "", ""); a.status != http.StatusOK ||
		a.body["enabled"] != false {
		t.Errorf("show: %d %s", a.status, a.text)
	}
	first := d.send(t, d.ada, http.MethodGet, path+"?limit=1", "", "")
	second := d.send(t, d.ada, http.MethodGet, path+"?limit=1&cursor="+first.str("nextCursor"), "", "")
	if a, b := first.items(t), second.items(t); len(a) != 1 || len(b) != 1 || a[0]["name"] != "Fan Site" ||
		b[0]["name"] != "Reader App" || second.body["nextCursor"] != nil {
		t.Errorf("pages: %s, %s", first.text, second.text)
	}
}

func TestKeyLife(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	path := "/api/admin/integrations/" + d.integrationID + "/keys"
	made := d.send(t, d.ada, http.MethodPost, path, "key-1", `{"expiresInSeconds":3600}`)
	if made.status != http.StatusCreated || made.str("apiKey") == "" || made.str("expiresAt") == "" {
		t.Fatalf("issue: %d %s", made.status, made.text)
	}
	if got := made.header.Get("Cache-Control"); got != "no-store" {
		t.Errorf("an answer with a key has the Cache-Control %q", got)
	}
	if again := d.send(t, d.ada, http.MethodPost, path, "key-1", `{}`); again.status != http.StatusOK ||
		again.body["apiKey"] != nil || again.str("keyId") != made.str("keyId") {
		t.Errorf("issue again: %d %s", again.status, again.text)
	}
	if principal, err := d.keys.Authenticate(t.Context(), made.str("apiKey")); err != nil ||
		principal.IntegrationID.String() != d.integrationID {
		t.Errorf("the key opens %v, %v", principal, err)
	}
	for range 2 { // revoking is idempotent
		if a := d.send(t, d.ada, http.MethodDelete, "/api/admin/keys/"+made.str("keyId")+"?reason=lost", "",
			""); a.status != http.StatusNoContent {
			t.Errorf("revoke: %d %s", a.status, a.text)
		}
	}
	if a := d.send(t, d.ada, http.MethodPost, "/api/admin/keys/"+made.str("keyId")+"/rotate", "rotate-1",
		`{}`); a.status != http.StatusConflict || a.code() != "conflict" {
		t.Errorf("rotate a revoked key: %d %s", a.status, a.text)
	}
	d.keys.Forget()
	if _, err := d.keys.Authenticate(t.Context(), made.str("apiKey")); err == nil {
		t.Error("a revoked key still opens the door")
	}
	keys := d.send(t, d.ada, http.MethodGet, path, "", "").items(t)
	if len(keys) != 2 || keys[1]["revokedAt"] == nil || keys[1]["apiKey"] != nil {
		t.Errorf("keys: %v", keys)
	}
	if a := d.send(t, d.ada, http.MethodGet, "/api/admin/integrations/"+uuid.NewString()+"/keys", "",
		""); a.code() != "not_found" {
		t.Errorf("keys of nobody: %d %s", a.status, a.text)
	}
}

func TestRotation(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	keys := "/api/admin/integrations/" + d.integrationID + "/keys"
	id, _ := d.send(t, d.ada, http.MethodGet, keys, "", "").items(t)[0]["keyId"].(string)
	path := "/api/admin/keys/" + id + "/rotate"
	opens := func(key string) bool {
		d.keys.Forget()
		_, err := d.keys.Authenticate(t.Context(), key)
		return err == nil
	}
	made := d.send(t, d.ada, http.MethodPost, path, "r-1", `{"overlapSeconds":3600}`)
	if made.status != http.StatusCreated || made.str("apiKey") == "" {
		t.Fatalf("rotate: %d %s", made.status, made.text)
	}
	if !opens(d.partner) || !opens(made.str("apiKey")) {
		t.Error("both keys must work during the overlap")
	}
	if again := d.send(t, d.ada, http.MethodPost, path, "r-1", `{"overlapSeconds":3600}`); again.status != http.StatusOK ||
		again.str("keyId") != made.str("keyId") || again.body["apiKey"] != nil {
		t.Errorf("rotate again: %d %s", again.status, again.text)
	}
	if a := d.send(t, d.ada, http.MethodPost, path, "r-2", `{"overlapSeconds":0}`); a.status != http.StatusCreated {
		t.Errorf("rotate without overlap: %d %s", a.status, a.text)
	}
	if opens(d.partner) || !opens(made.str("apiKey")) {
		t.Error("without overlap the old key must stop, and no other")
	}
	// A later rotation with a long overlap does not bring the old key back.
	if a := d.send(t, d.ada, http.MethodPost, path, "r-3", `{"overlapSeconds":3600}`); a.status != http.StatusCreated ||
		opens(d.partner) {
		t.Errorf("rotate an expired key: %d %s", a.status, a.text)
	}
	for _, overlap := range []string{"-1", "3153600001"} {
		if a := d.send(t, d.ada, http.MethodPost, path, "r-4", `{"overlapSeconds":`+overlap+`}`); a.status !=
			http.StatusBadRequest || a.str("field") != "overlapSeconds" {
			t.Errorf("overlap of %s s: %d %s", overlap, a.status, a.text)
		}
	}
}

func TestBadRequests(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for _, c := range []struct{ method, path, key, body, code, field string }{
		{http.MethodPost, "/api/admin/integrations", "", `{"name":"x"}`, "invalid_idempotency_key", ""},
		{http.MethodPost, "/api/admin/integrations", "k", `{}`, "invalid_request", "name"},
		{http.MethodPost, "/api/admin/integrations", "k", `{"name":""}`, "invalid_request", "name"},
		{http.MethodPost, "/api/admin/integrations", "k", `{"name":"hOst"}`, "invalid_request", "name"},
		{http.MethodPatch, "/api/admin/integrations/" + d.integrationID, "", `{"name":" Host "}`, "invalid_request", "name"},
		{http.MethodPost, "/api/admin/integrations", "k", `{"name":5}`, "invalid_request", "name"},
		{http.MethodPost, "/api/admin/integrations", "k", `{"name":"x","other":1}`, "invalid_request", "other"},
		{http.MethodPost, "/api/admin/integrations", "k", `{"name":"x","name":"y"}`, "invalid_request", "name"},
		{
			http.MethodPost, "/api/admin/integrations", "k", `{"name":"x","capabilities":["fly"]}`, "invalid_request",
			"capabilities",
		},
		{http.MethodPost, "/api/admin/integrations", "k", `[]`, "invalid_request", ""},
		{
			http.MethodPost, "/api/admin/integrations", "k", `{"name":"x","postsPerMinute":-1}`, "invalid_request",
			"postsPerMinute",
		},
		{
			http.MethodPatch, "/api/admin/integrations/" + d.integrationID, "", `{"postsPerMinute":1000000001}`,
			"invalid_request", "postsPerMinute",
		},
		{
			http.MethodPatch, "/api/admin/integrations/" + d.integrationID, "", `{"novelsPerMinute":-1}`, "invalid_request",
			"novelsPerMinute",
		},
		{
			http.MethodPost, "/api/admin/integrations/" + d.integrationID + "/keys", "k", `{"expiresInSeconds":-1}`,
			"invalid_request", "expiresInSeconds",
		},
		{
			http.MethodPost, "/api/admin/integrations/" + d.integrationID + "/keys", "k", `{"expiresInSeconds":3153600001}`,
			"invalid_request", "expiresInSeconds",
		},
		{http.MethodPatch, "/api/admin/integrations/" + d.integrationID, "", `{"name":" "}`, "invalid_request", "name"},
		{http.MethodPatch, "/api/admin/integrations/" + d.integrationID, "", `{"name":7}`, "invalid_request", "name"},
		{http.MethodPost, "/api/admin/novels", "k", `{"novel":" "}`, "invalid_request", "novel"},
		{http.MethodPost, "/api/admin/novels", "k", `{"novel":"x","state":"published"}`, "invalid_request", "state"},
		{http.MethodPost, "/api/admin/novels", "k", `{"novel":"x","author":""}`, "invalid_request", "author"},
		{
			http.MethodPost, "/api/admin/novels", "k", `{"novel":"x","coverUrl":"http://example.com/"}`, "invalid_request",
			"coverUrl",
		},
		{http.MethodPost, "/api/admin/novels", "k", `{"novel":"x","genres":["a",1]}`, "invalid_request", "genres[1]"},
		{
			http.MethodPost, "/api/admin/novels", "k", `{"novel":"x","readingStatus":"paused"}`, "invalid_request",
			"readingStatus",
		},
		{http.MethodPost, "/api/admin/novels", "", `{"novel":"x"}`, "invalid_idempotency_key", ""},
		{http.MethodPost, "/api/admin/novels/reject", "", `{"novel":"x","reason":"r"}`, "invalid_idempotency_key", ""},
		{http.MethodPost, "/api/admin/novels/reject", "k", `{"novel":"x"}`, "invalid_request", "reason"},
		{http.MethodPost, "/api/admin/novels/reject", "k", `{"novel":"x","reason":" \t\n"}`, "invalid_request", "reason"},
		{http.MethodPost, "/api/admin/novels/reject", "k", `{"reason":"r"}`, "invalid_request", "novel"},
		{http.MethodPost, "/api/admin/novels/reject", "k", `{"novel":"x","reason":"a\u0000b"}`, "invalid_request", "reason"},
		{
			http.MethodPost, "/api/admin/novels/reject", "k", `{"novel":"x","reason":"r","author":"a"}`, "invalid_request",
			"author",
		},
		{http.MethodPatch, "/api/admin/novels/" + uuid.NewString(), "", `{"novel":"other"}`, "invalid_request", "novel"},
		{http.MethodPatch, "/api/admin/novels/" + uuid.NewString(), "", `{"author":5}`, "invalid_request", "author"},
		{http.MethodPatch, "/api/admin/novels/" + uuid.NewString(), "", `{"author":"A"}`, "not_found", ""},
		{http.MethodPatch, "/api/admin/novels/nonsense", "", `{"author":"A"}`, "not_found", ""},
		{http.MethodGet, "/api/admin/novels?text=a%00b", "", ``, "invalid_request", "text"},
		{http.MethodGet, "/api/admin/novels?text=%FF", "", ``, "invalid_request", "text"},
		{http.MethodGet, "/api/admin/novels?owner=nobody", "", ``, "invalid_request", "owner"},
		{http.MethodGet, "/api/admin/novels?state=lost", "", ``, "invalid_request", "state"},
		{http.MethodGet, "/api/admin/novels?limit=0", "", ``, "invalid_request", "limit"},
		{http.MethodGet, "/api/admin/novels?cursor=%25", "", ``, "invalid_request", "cursor"},
		{http.MethodGet, "/api/admin/novels/nonsense", "", ``, "not_found", ""},
		{http.MethodGet, "/api/admin/novels?state=%zz", "", ``, "invalid_request", "query"},
		{http.MethodGet, "/api/admin/novels?state=pending;owner=host", "", ``, "invalid_request", "query"},
		{http.MethodGet, "/api/admin/novels?status=pending", "", ``, "invalid_request", "status"},
		{http.MethodGet, "/api/admin/novels?State=pending", "", ``, "invalid_request", "State"},
		{http.MethodGet, "/api/admin/novels?state=pending&state=rejected", "", ``, "invalid_request", "state"},
		{http.MethodGet, "/api/admin/novels?%ff=1", "", ``, "invalid_request", "?"},
		{http.MethodGet, "/api/admin/integrations?state=pending", "", ``, "invalid_request", "state"},
		{
			http.MethodGet, "/api/admin/integrations/" + d.integrationID + "/authors?banned=true", "", ``, "invalid_request",
			"banned",
		},
		{http.MethodPost, "/api/admin/novels?reason=r", "k", `{"novel":"x"}`, "invalid_request", "reason"},
	} {
		if a := d.send(t, d.ada, c.method, c.path, c.key, c.body); a.code() != c.code || a.str("field") != c.field {
			t.Errorf("%s %s %s: %d %s", c.method, c.path, c.body, a.status, a.text)
		}
	}
}
