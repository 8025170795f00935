package readapi_test

import (
	"crypto/sha512"
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
)

// TestReference: the API reference loads the description and one script, which has the digest that the page names, from
// this host alone.
func TestReference(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	page := w.get(t, "/docs")
	const policy = "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; img-src 'self' data:; " +
		"connect-src 'self'; worker-src blob:; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
	if h := page.Header(); page.Code != http.StatusOK || h.Get("Content-Security-Policy") != policy ||
		h.Get("Content-Type") != "text/html; charset=utf-8" || h.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%d %v", page.Code, h)
	}
	scripts, descriptions, licenses := 0, 0, 0
	for _, e := range elements(t, page.Body.String()) {
		for _, name := range []string{"src", "href", "spec-url"} {
			address, ok := e.attributes[name]
			if !ok {
				continue
			}
			path, ok := strings.CutPrefix(address, "/books/")
			got := w.get(t, "/"+path)
			if !ok || got.Code != http.StatusOK {
				t.Errorf("<%s %s=%q> is %d", e.Data, name, address, got.Code)
			}
			switch e.Data {
			case "redoc":
				descriptions++
			case "script":
				scripts++
				digest := sha512.Sum384(got.Body.Bytes())
				if want := "sha384-" + base64.StdEncoding.EncodeToString(digest[:]); e.attributes["integrity"] != want {
					t.Errorf("%s has the digest %s, the page says %s", address, want, e.attributes["integrity"])
				}
				if h := got.Header(); h.Get("Content-Type") != "text/javascript; charset=utf-8" ||
					h.Get("Cache-Control") != "public, max-age=31536000, immutable" {
					t.Errorf("%s: %v", address, h)
				}
			case "link":
				if e.attributes["rel"] == "license" {
					licenses++
				}
			}
		}
	}
	if scripts != 1 || descriptions != 1 || licenses != 1 {
		t.Errorf("%d scripts, %d descriptions, %d licences\n%s", scripts, descriptions, licenses, page.Body)
	}
}
