//go:build look

package readapi_test

import (
	"log/slog"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"novelgate/docs"
	"novelgate/internal/httpkit"
	"novelgate/internal/testdb"
	"novelgate/readapi/queries"
)

// TestLookReference opens the API reference: it shows every operation, its search works, and the page complains about
// nothing but the logo of Redoc, which it may not load from another host.
func TestLookReference(t *testing.T) {
	w := newWorld(t)
	doc, err := openapi3.NewLoader().LoadFromData(docs.OpenAPI)
	if err != nil {
		t.Fatal(err)
	}
	operations := 0
	for _, item := range doc.Paths.Map() {
		operations += len(item.Operations())
	}
	public := &url.URL{Scheme: "http", Host: "127.0.0.1"}
	server := httptest.NewServer(routes(slog.New(slog.DiscardHandler), &queries.Reader{DB: w.Read},
		httpkit.NewAddresses(public)))
	defer server.Close()
	b := openBrowser(t)
	for window, size := range map[string][2]int{"desktop": {1280, 900}, "phone": {390, 844}} {
		b.open(t, server.URL+"/docs", size[0], size[1], "light")
		testdb.Eventually(t, "the reference shows every operation", func() bool {
			return b.evaluate(t, `document.querySelectorAll('[id^="tag/"][id*="/operation/"]').length`) == float64(operations)
		})
		if wide := b.evaluate(t, overflow); wide > 0 {
			t.Errorf("%s: the page is %v pixels wider than the window", window, wide)
		}
		save(t, "reference-"+window+".png", b.screenshot(t))
		b.evaluate(t, `(() => {
			const search = document.querySelector('input[aria-label="Search"]');
			Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set.call(search, 'reconcile');
			search.dispatchEvent(new Event('input', {bubbles: true})); return 1 })()`)
		testdb.Eventually(t, "the search finds an operation", func() bool {
			return b.evaluate(t, `document.querySelectorAll('[data-role="search:results"] li').length`) > 0
		})
		b.evaluate(t, `(document.getElementById('tag/Comments').scrollIntoView(), 1)`)
		testdb.Eventually(t, "the window shows the comments", func() bool {
			return b.evaluate(t, `Math.abs(document.getElementById('tag/Comments').getBoundingClientRect().top)`) < 10
		})
		save(t, "reference-"+window+"-comments.png", b.screenshot(t))
		for _, complaint := range b.log {
			if !strings.Contains(complaint, "redoc/logo-mini.svg") && !strings.Contains(complaint, `"GenericIssue"`) {
				t.Errorf("%s: %s", window, complaint)
			}
		}
	}
}
