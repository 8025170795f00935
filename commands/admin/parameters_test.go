package admin_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"novelgate/docs"
)

// TestAReasonIsNotLost: a key stays when the reason to revoke it cannot be read, or has another name.
func TestAReasonIsNotLost(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	keys := "/api/admin/integrations/" + d.integrationID + "/keys"
	key := d.post(t, keys, `{}`).str("keyId")
	for _, query := range []string{
		"reason=leaked;rotate", "reason=%zz", "reasons=leaked", "reason=leaked&reason=rotate", "reason=leaked&x",
	} {
		if a := d.send(t, d.ada, http.MethodDelete, "/api/admin/keys/"+key+"?"+query, "",
			""); a.status != http.StatusBadRequest || a.code() != "invalid_request" || a.str("field") == "" {
			t.Errorf("%s: %d %s", query, a.status, a.text)
		}
	}
	for _, item := range d.send(t, d.ada, http.MethodGet, keys, "", "").items(t) {
		if item["revokedAt"] != nil {
			t.Errorf("revoked: %v", item)
		}
	}
	if a := d.send(t, d.ada, http.MethodDelete, "/api/admin/keys/"+key+"?reason=leaked%3Brotate", "",
		""); a.status != http.StatusNoContent {
		t.Errorf("encoded: %d %s", a.status, a.text)
	}
}

// TestParametersAreDescribed sends to every route the parameters that docs/openapi.yaml gives it, and one that it does
// not.
func TestParametersAreDescribed(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	doc, err := openapi3.NewLoader().LoadFromData(docs.OpenAPI)
	if err != nil {
		t.Fatal(err)
	}
	routes, parameters := 0, 0
	for path, item := range doc.Paths.Map() {
		if !strings.HasPrefix(path, "/api/admin/") {
			continue
		}
		for method, operation := range item.Operations() {
			routes++
			query := []string{"nonsense="}
			for _, parameter := range operation.Parameters {
				if parameter.Value.In == openapi3.ParameterInQuery {
					parameters++
					query = append(query, parameter.Value.Name+"=")
				}
			}
			a := d.send(t, d.ada, method, strings.NewReplacer("{", "", "}", "").Replace(path)+"?"+strings.Join(query, "&"), "",
				"")
			refused, _ := a.body["errors"].([]any)
			if a.status != http.StatusBadRequest || len(refused) != 1 || a.str("field") != "nonsense" {
				t.Errorf("%s %s?%s: %d %s", method, path, strings.Join(query, "&"), a.status, a.text)
			}
		}
	}
	if routes < 28 || parameters < 16 {
		t.Errorf("%d routes with %d parameters", routes, parameters)
	}
}
