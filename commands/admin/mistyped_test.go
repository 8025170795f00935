package admin_test

import (
	"fmt"
	"net/http"
	"testing"
)

// TestMistypedMembers: what is wrong with a body is said in the words of JSON, for every member at fault.
func TestMistypedMembers(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	path := "/api/admin/integrations/" + d.integrationID
	keys := path + "/keys"
	for _, c := range []struct{ method, path, body, want string }{
		{http.MethodPatch, path, `{"name":5}`, "[name must be a string, got a number]"},
		{http.MethodPatch, path, `{"enabled":"yes"}`, "[enabled must be a boolean, got a string]"},
		{http.MethodPatch, path, `{"capabilities":"novels"}`, "[capabilities must be an array, got a string]"},
		{http.MethodPatch, path, `{"capabilities":{}}`, "[capabilities must be an array, got an object]"},
		{http.MethodPatch, path, `{"capabilities":["posts",7]}`, "[capabilities[1] must be a string, got a number]"},
		{http.MethodPatch, path, `{"postsPerMinute":"7"}`, "[postsPerMinute must be a whole number, got a string]"},
		{
			http.MethodPatch, path, `{"postsPerMinute":1e3}`,
			"[postsPerMinute must be a whole number, without fraction and exponent]",
		},
		{
			http.MethodPatch, path, `{"postsPerMinute":7.5}`,
			"[postsPerMinute must be a whole number, without fraction and exponent]",
		},
		{http.MethodPatch, path, `{"postsPerMinute":99999999999999999999}`, "[postsPerMinute is out of range]"},
		{
			http.MethodPatch, path, `{"postsPerMinute":-1,"novelsPerMinute":1000000001}`,
			"[postsPerMinute a limit must lie between 0 and 1000000000 novelsPerMinute a limit must lie between 0 and " +
				"1000000000]",
		},
		{
			http.MethodPatch, path, `{"novelUpdatesPerMinute":"off"}`,
			"[novelUpdatesPerMinute must be a whole number, got a string]",
		},
		{
			http.MethodPatch, path, `{"novelUpdatesPerMinute":-1}`,
			"[novelUpdatesPerMinute a limit must lie between 0 and 1000000000]",
		},
		{http.MethodPost, keys, `{"expiresInSeconds":true}`, "[expiresInSeconds must be a whole number, got a boolean]"},
		{
			http.MethodPatch, path, `{"postsPerMinute":null,"name":null}`,
			"[name must not be null postsPerMinute must not be null]",
		},
		{http.MethodPatch, path, `{"capabilities":null}`, "[capabilities must not be null]"},
		{http.MethodPatch, path, `{"capabilities":[null]}`, "[capabilities[0] must be a string, got null]"},
		{http.MethodPost, keys, `{"expiresInSeconds":null}`, "[expiresInSeconds must not be null]"},
		{http.MethodPost, "/api/admin/novels/reject", `{"novel":"x","reason":null}`, "[reason must not be null]"},
		{http.MethodPost, keys, `{"other":[]}`, "[other unknown member]"},
		{
			http.MethodPost, "/api/admin/novels/reject", `{"novel":"x","reason":{}}`, "[reason must be a string, got an object]",
		},
		{http.MethodPost, keys, `null`, "[]"}, // not a key without expiry
		{http.MethodPatch, path, `null`, "[]"},
	} {
		a := d.send(t, d.ada, c.method, c.path, "k", c.body)
		var got []any
		errors, _ := a.body["errors"].([]any)
		for _, e := range errors {
			entry, _ := e.(map[string]any)
			got = append(got, entry["field"], entry["message"])
		}
		if a.status != http.StatusBadRequest || fmt.Sprint(got) != c.want {
			t.Errorf("%s: %d %v, want %s", c.body, a.status, got, c.want)
		}
	}
}
