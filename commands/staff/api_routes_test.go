package staff_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/google/uuid"
)

func TestIntegrationLife(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
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
	if a := d.get(t, path+"/"+id); a.status != http.StatusOK ||
		a.body["enabled"] != false {
		t.Errorf("show: %d %s", a.status, a.text)
	}
	first := d.get(t, path+"?limit=1")
	second := d.get(t, path+"?limit=1&cursor="+first.str("nextCursor"))
	if a, b := first.items(t), second.items(t); len(a) != 1 || len(b) != 1 || a[0]["name"] != "Fan Site" ||
		b[0]["name"] != "Reader App" || second.body["nextCursor"] != nil {
		t.Errorf("pages: %s, %s", first.text, second.text)
	}
}

func TestKeyLife(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
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
	if d.isValid(t, made.str("apiKey")) {
		t.Error("a revoked key is valid")
	}
	keys := d.get(t, path).items(t)
	if len(keys) != 2 || keys[1]["revokedAt"] == nil || keys[1]["apiKey"] != nil {
		t.Errorf("keys: %v", keys)
	}
	if a := d.get(t, "/api/admin/integrations/"+uuid.NewString()+"/keys"); a.code() != "not_found" {
		t.Errorf("keys of an unknown integration: %d %s", a.status, a.text)
	}
}

func TestRotation(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	keys := "/api/admin/integrations/" + d.integrationID + "/keys"
	id, _ := d.get(t, keys).items(t)[0]["keyId"].(string)
	path := "/api/admin/keys/" + id + "/rotate"
	made := d.send(t, d.ada, http.MethodPost, path, "r-1", `{"overlapSeconds":3600}`)
	if made.status != http.StatusCreated || !d.isValid(t, d.partner) || !d.isValid(t, made.str("apiKey")) {
		t.Fatalf("with an overlap: %d %s", made.status, made.text)
	}
	if again := d.send(t, d.ada, http.MethodPost, path, "r-1", `{"overlapSeconds":3600}`); again.status != http.StatusOK ||
		again.str("keyId") != made.str("keyId") || again.body["apiKey"] != nil {
		t.Errorf("the same key: %d %s", again.status, again.text)
	}
	if a := d.send(t, d.ada, http.MethodPost, path, "r-2", `{"overlapSeconds":0}`); a.status != http.StatusCreated ||
		d.isValid(t, d.partner) || !d.isValid(t, made.str("apiKey")) {
		t.Errorf("without overlap: %d %s", a.status, a.text)
	}
}

// TestRefusals tests the rules of each route. web and request test those of JSON objects and queries.
func TestRefusals(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	const integrations, novels = "/api/admin/integrations", "/api/admin/novels"
	integration, unknown := integrations+"/"+d.integrationID, uuid.NewString()
	keys, member, posts := integration+"/keys", d.author("u")+"/member", "/api/admin/posts/"
	const (
		get, post, patch, put = http.MethodGet, http.MethodPost, http.MethodPatch, http.MethodPut
		invalid, noKey        = "invalid_request", "invalid_idempotency_key"
	)
	for _, c := range []struct{ method, path, key, body, code, field string }{
		{post, integrations, "", `{"name":"x"}`, noKey, ""},
		{post, integrations, "k", `{}`, invalid, "name"},
		{post, integrations, "k", `{"name":"hOst"}`, invalid, "name"},
		{post, integrations, "k", `{"name":"x","other":1}`, invalid, "other"},
		{post, integrations, "k", `{"name":"x","capabilities":["fly"]}`, invalid, "capabilities"},
		{post, integrations, "k", `{"name":"x","postsPerMinute":-1}`, invalid, "postsPerMinute"},
		{post, integrations, "k", `[]`, invalid, ""},
		{patch, integration, "", `{"name":" "}`, invalid, "name"},
		{patch, integration, "", `{"postsPerMinute":1000000001}`, invalid, "postsPerMinute"},
		{patch, integration, "", `{"novelsPerMinute":-1}`, invalid, "novelsPerMinute"},
		{patch, integration, "", `{"postsPerMinute":"7"}`, invalid, "postsPerMinute"},
		{patch, integration, "", `{"postsPerMinute":7.5}`, invalid, "postsPerMinute"},
		{patch, integration, "", `{"postsPerMinute":99999999999999999999}`, invalid, "postsPerMinute"},
		{patch, integration, "", `{"enabled":"yes"}`, invalid, "enabled"},
		{patch, integration, "", `{"capabilities":["posts",7]}`, invalid, "capabilities[1]"},
		{patch, integration, "", `{"capabilities":null}`, invalid, "capabilities"},
		{patch, integration, "", `null`, invalid, ""},
		{post, keys, "k", `{"expiresInSeconds":-1}`, invalid, "expiresInSeconds"},
		{post, keys, "k", `{"expiresInSeconds":3153600001}`, invalid, "expiresInSeconds"},
		{post, keys, "k", `{"expiresInSeconds":null}`, invalid, "expiresInSeconds"},
		{post, keys, "k", `null`, invalid, ""}, // not a key without expiry
		{get, integrations + "/" + unknown + "/keys", "", ``, "not_found", ""},
		{get, integrations + "/" + unknown + "/refusals", "", ``, "not_found", ""},
		{get, integration + "/refusals?code=none", "", ``, invalid, "code"},
		{post, "/api/admin/keys/" + unknown + "/rotate", "k", `{"overlapSeconds":-1}`, invalid, "overlapSeconds"},
		{get, integrations + "?state=pending", "", ``, invalid, "state"},

		{post, novels, "", `{"novel":"x"}`, noKey, ""},
		{post, novels, "k", `{"novel":" "}`, invalid, "novel"},
		{post, novels, "k", `{"novel":"x","state":"published"}`, invalid, "state"},
		{post, novels, "k", `{"novel":"x","genres":["a",1]}`, invalid, "genres[1]"},
		{post, novels + "?reason=r", "k", `{"novel":"x"}`, invalid, "reason"},
		{post, novels + "/reject", "", `{"novel":"x","reason":"r"}`, noKey, ""},
		{post, novels + "/reject", "k", `{"novel":"x","reason":" \t\n"}`, invalid, "reason"},
		{post, novels + "/reject", "k", `{"reason":"r"}`, invalid, "novel"},
		{post, novels + "/reject", "k", `{"novel":"x","reason":"r","author":"a"}`, invalid, "author"},
		{patch, novels + "/" + unknown, "", `{"novel":"other"}`, invalid, "novel"},
		{patch, novels + "/" + unknown, "", `{"author":5}`, invalid, "author"},
		{patch, novels + "/" + unknown, "", `{"author":"A"}`, "not_found", ""},
		{patch, novels + "/nonsense", "", `{"author":"A"}`, "not_found", ""},
		{get, novels + "?owner=unknown", "", ``, invalid, "owner"},
		{get, novels + "?state=lost", "", ``, invalid, "state"},
		{get, novels + "?title=x&state=pending", "", ``, invalid, "title"},
		{get, novels + "?limit=0", "", ``, invalid, "limit"},
		{get, novels + "?state=pending;owner=host", "", ``, invalid, "query"},

		{put, member, "", `{}`, invalid, "memberId"},
		{put, member, "", `{"memberId":" m"}`, invalid, "memberId"},
		{put, member, "", `{"memberId":"m","more":1}`, invalid, "more"},
		{post, d.author("u") + "/block", "", `{"reason":"r"}`, noKey, ""},
		{post, d.author("u") + "/block", "k", `{"reason":"  "}`, invalid, "reason"},
		{get, d.authors() + "?linked=1", "", "", invalid, "linked"},
		{get, d.authors() + "?blocked=yes", "", "", invalid, "blocked"},
		{get, posts + unknown, "", "", "not_found", ""},
		{get, posts + "nonsense", "", "", "not_found", ""},
		{post, posts + unknown + "/hide", "k", `{"reason":"r"}`, "not_found", ""},
		{post, posts + unknown + "/hide", "", `{"reason":"r"}`, noKey, ""},
		{post, posts + unknown + "/restore", "k", `{"reason":""}`, invalid, "reason"},

		{put, "/api/admin/webhooks/" + unknown + "/disabled", "", `{"reason":"` + d.partner + `"}`, invalid, ""},
	} {
		if a := d.send(t, d.ada, c.method, c.path, c.key, c.body); a.code() != c.code || a.str("field") != c.field {
			t.Errorf("%s %s %s: %d %s", c.method, c.path, c.body, a.status, a.text)
		}
	}
	for body, want := range map[string]string{
		`{"enabled":"yes"}`:                       "enabled: must be a boolean, got a string.",
		`{"postsPerMinute":"7"}`:                  "postsPerMinute: must be a whole number, got a string.",
		`{"postsPerMinute":1e3}`:                  "postsPerMinute: must be a whole number, without fraction and exponent.",
		`{"postsPerMinute":99999999999999999999}`: "postsPerMinute: is out of range.",
		`{"postsPerMinute":null,"name":null}`:     "name: must not be null. 1 more under errors.",
		`{"capabilities":{}}`:                     "capabilities: must be an array, got an object.",
	} {
		if a := d.send(t, d.ada, patch, integration, "", body); a.str("detail") != want {
			t.Errorf("%s: %s, want %s", body, a.text, want)
		}
	}
	a := d.send(t, d.ada, patch, integration, "", `{"postsPerMinute":-1,"novelsPerMinute":1000000001}`)
	const limit = "map[field:%sPerMinute message:a limit must lie between 0 and 1000000000]"
	if got, want := fmt.Sprint(a.body["errors"]), fmt.Sprintf("["+limit+" "+limit+"]", "posts", "novels"); got != want {
		t.Errorf("two limits out of range: %s, want %s", got, want)
	}
}
