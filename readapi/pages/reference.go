package pages

import (
	"archive/zip"
	"bytes"
	"context"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"strings"

	"github.com/gorilla/mux"

	"novelgate/client"
	"novelgate/docs"
	"novelgate/readapi"
)

// redocIntegrity is the digest of bundles/redoc.standalone.js in redoc 2.5.4 of npm, which is assets/redoc.js.gz.
const redocIntegrity = "sha384-w447zOpYfw/1Tv/5AK9NfHTlQIqE3RVR6KY62jCyy9zNDgO64cMwGGP1Fj0zJVf5"

// referencePolicy lets the API reference load Redoc and the description from this host. Redoc inserts style sheets and
// starts its own worker for searching. Its logo, on another host, is not loaded.
const referencePolicy = "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; img-src 'self' data:; " +
	"connect-src 'self'; worker-src blob:; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"

var referenceTemplate = template.Must(template.ParseFS(templateFiles, "templates/reference.html"))

// reference handles GET /docs: openapi.yaml as a page.
func (p *Pages) reference() readFunc {
	var page bytes.Buffer
	if err := referenceTemplate.Execute(&page, map[string]string{
		"Base": p.Reader.Addresses.Base(), "Icon": p.assetPath("icon.svg"), "License": p.assetPath("redoc.txt"),
		"Script": p.assetPath("redoc.js"), "Integrity": redocIntegrity, "Program": docs.Program,
	}); err != nil {
		panic(err) // impossible: the template is embedded
	}
	return func(_ context.Context, h http.Header, _ *http.Request) ([]byte, error) {
		p.setPolicies(h)
		h.Set("Content-Security-Policy", referencePolicy)
		h.Set("Content-Type", htmlType)
		return page.Bytes(), nil
	}
}

// download handles GET /docs/{file}: guides, and the Go client as a zip.
func (p *Pages) download() readFunc {
	packed, err := packClient()
	files := map[string][]byte{"client.zip": packed}
	for _, guide := range []string{
		"SPEC.md", "partners.md", "partner-clients.md", "reading.md", "staff.md", "console.md",
	} {
		if err == nil {
			files[guide], err = docs.Guides.ReadFile(guide)
		}
	}
	if err != nil {
		panic(err) // impossible: the files are embedded
	}
	return func(_ context.Context, h http.Header, r *http.Request) ([]byte, error) {
		name := mux.Vars(r)["file"]
		body, ok := files[name]
		if !ok {
			return nil, readapi.ErrNotFound
		}
		h.Set("Content-Type", "text/plain; charset=utf-8") // browsers download text/markdown
		if path.Ext(name) == ".zip" {
			h.Set("Content-Type", "application/zip")
		}
		return body, nil
	}
}

// packClient returns a zip of the package client without its tests, in a folder "client".
func packClient() ([]byte, error) {
	names, err := fs.Glob(client.Source, "*.go")
	if err != nil {
		return nil, err
	}
	var packed bytes.Buffer
	archive := zip.NewWriter(&packed)
	for _, name := range names {
		if name == "source.go" || strings.HasSuffix(name, "_test.go") { // source.go embeds the others, for this service
			continue
		}
		text, err := client.Source.ReadFile(name)
		if err != nil {
			return nil, err
		}
		file, err := archive.Create("client/" + name)
		if err != nil {
			return nil, err
		}
		if _, err := file.Write(text); err != nil {
			return nil, err
		}
	}
	err = archive.Close()
	return packed.Bytes(), err
}
