package pages

import (
	"bytes"
	"html/template"
	"net/http"

	"novelgate/internal/httpkit"
)

// redocIntegrity is the digest of bundles/redoc.standalone.js in redoc 2.5.4 of npm, which is assets/redoc.js.gz.
const redocIntegrity = "sha384-w447zOpYfw/1Tv/5AK9NfHTlQIqE3RVR6KY62jCyy9zNDgO64cMwGGP1Fj0zJVf5"

// referencePolicy lets the API reference load Redoc and the description from this host. Redoc inserts style sheets and
// starts its own worker for searching. Its logo, on another host, is not loaded.
const referencePolicy = "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; img-src 'self' data:; " +
	"connect-src 'self'; worker-src blob:; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"

var referenceTemplate = template.Must(template.ParseFS(templateFiles, "templates/reference.html"))

// reference handles GET /docs: openapi.yaml as a page.
func (p *Pages) reference() http.Handler {
	var page bytes.Buffer
	if err := referenceTemplate.Execute(&page, map[string]string{
		"Base": p.Addresses.Base(), "Icon": p.assetPath("icon.svg"), "License": p.assetPath("redoc.txt"),
		"Script": p.assetPath("redoc.js"), "Integrity": redocIntegrity,
	}); err != nil {
		panic(err) // impossible: the template is embedded
	}
	return p.Public(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.setPolicies(w.Header())
		w.Header().Set("Content-Security-Policy", referencePolicy)
		httpkit.Send(w, r, htmlType, page.Bytes())
	}), p.refuse)
}
