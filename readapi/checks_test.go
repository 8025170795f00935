//go:build checks

package readapi_test

import (
	"log/slog"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"novelgate/events"
	"novelgate/internal/testdb"
	"novelgate/internal/web"
	"novelgate/readapi"
	"novelgate/readapi/checks"
	"novelgate/readapi/pages"
)

// TestChecks runs the tools of checks/package.json on a page of each kind: the Nu checker (it needs Java),
// html-validate, and axe and Lighthouse with Chromium. It validates feeds and sitemaps against schemas. look.mjs also
// checks the layout, and saves pictures in the directory NOVELGATE_LOOK.
func TestChecks(t *testing.T) {
	w := newWorld(t)
	all := bigDiscussion(t, w)
	clock := w.novel(t, "The Clockmaker", func(e *events.NovelCreated) {
		e.Author, e.Synopsis, e.Genres, e.ReadingStatus, e.Language, e.Slug = "Ida Verne",
			strings.Repeat("A boy finds a watch. ", 30), []string{"Fantasy", "Mystery"}, "ongoing", "zh", "clock"
		e.CoverURL = "https://covers.example/a.jpg"
	})
	for i, text := range hostileTitles {
		w.novel(t, text, func(e *events.NovelCreated) {
			e.Author, e.Synopsis, e.Slug = text, text, "hostile-"+string(rune('a'+i))
		})
	}
	for _, text := range hostile {
		w.comment(t, clock, events.PostImported{
			Comment: &events.Comment{ExternalUUID: "u", Username: username(text), Content: text},
		})
	}
	w.project(t)
	w.exec(t, `UPDATE posts SET hidden = true WHERE post_id = $1`, all[31])
	made := testdb.Must(pages.NewLogo([]byte(logo)))(t)
	site := pages.Site{Name: "Tales", Logo: made, NoCovers: true}
	home := serve(t, w, site)
	c := checked{checks.Install(t), w.site(t, site)}
	t.Run("HTML", c.html)
	t.Run("feeds", c.feeds)
	t.Run("sitemaps", c.sitemaps)
	deep := "/novels/a/discussion?post=" + all[len(all)-1].String() + "#post-" + all[len(all)-1].String()
	t.Run("look", func(t *testing.T) { c.look(t, home, append(slices.Clone(checkedPages), deep)) })
	t.Run("Lighthouse", func(t *testing.T) { c.lighthouse(t, home) })
}

// checked is a world to check, and the tools for it.
type checked struct {
	checks.Tools
	*world
}

// save saves what is at a path in a file, and returns its name.
func (c checked) save(t *testing.T, path, extension string) string {
	t.Helper()
	file := strings.NewReplacer("/", "_", "?", "_", "&", "_").Replace(path) + extension
	c.Write(t, file, c.get(t, path).Body.Bytes())
	return file
}

// checkedPages are the paths of a page of each kind.
var checkedPages = []string{
	"/", "/novels", "/novels/clock", "/novels/a/discussion", "/novels?q=nothing", "/novels?genre=Fantasy&language=zh",
	"/novels/missing", "/novels?limit=100", "/novels/hostile-b", "/novels/clock/discussion",
	"/novels/a/discussion?sort=oldest",
}

func (c checked) html(t *testing.T) {
	var files []string
	for _, path := range checkedPages {
		files = append(files, c.save(t, path, ".html"))
	}
	vnu := []string{"-jar", "node_modules/vnu-jar/build/dist/vnu.jar", "--errors-only"}
	c.Run(t, "java", append(vnu, files...)...)
	c.Run(t, "npx", append([]string{"--no", "html-validate"}, files...)...)
}

func (c checked) feeds(t *testing.T) {
	args := []string{"validate.mjs", "atom.rng"}
	for _, path := range []string{
		"/feed.atom", "/novels/clock/feed.atom", "/novels/a/feed.atom", "/novels/hostile-a/feed.atom", // the last is empty
	} {
		args = append(args, c.save(t, path, ".xml"))
	}
	c.Run(t, "node", args...)
}

func (c checked) sitemaps(t *testing.T) {
	index := c.save(t, "/sitemap.xml", "")
	c.Run(t, "node", "validate.mjs", "siteindex.xsd", index)
	args := []string{"validate.mjs", "node_modules/sitemap/schema/sitemap.xsd"}
	for _, part := range regexp.MustCompile(`/sitemaps/\d+`).FindAllString(c.get(t, "/sitemap.xml").Body.String(), -1) {
		args = append(args, c.save(t, part, ".xml"))
	}
	c.Run(t, "node", args...)
}

func (c checked) look(t *testing.T, home string, paths []string) {
	args := []string{"look.mjs", checks.Chromium(t), os.Getenv("NOVELGATE_LOOK")}
	for _, path := range paths {
		args = append(args, home+path)
	}
	c.Run(t, "node", args...)
}

// serve serves the pages of w until the test ends, and returns their address.
func serve(t *testing.T, w *world, site pages.Site) string {
	t.Helper()
	server := httptest.NewServer(routes(slog.New(slog.DiscardHandler), time.Now, &readapi.Reader{DB: w.Read},
		web.NewAddresses(&url.URL{Scheme: "http", Host: "127.0.0.1"}), site))
	t.Cleanup(server.Close)
	return server.URL
}

func (c checked) lighthouse(t *testing.T, home string) {
	t.Setenv("CHROME_PATH", checks.Chromium(t))
	for _, path := range []string{"/", "/novels", "/novels/clock", "/novels/a/discussion"} {
		out := filepath.Join(string(c.Tools), "report.json")
		c.Run(t, "npx", "--no", "lighthouse", home+path, "--quiet", "--output=json", "--output-path="+out,
			"--skip-audits=robots-txt", // it cannot be downloaded from a page that may connect to nothing
			"--only-categories=performance,accessibility,best-practices,seo",
			"--chrome-flags=--headless --no-sandbox --disable-gpu")
		content := testdb.Must(os.ReadFile(out))(t)
		var report struct {
			Categories map[string]struct {
				Score     float64 `json:"score"`
				AuditRefs []struct {
					ID     string  `json:"id"`
					Weight float64 `json:"weight"`
				} `json:"auditRefs"`
			} `json:"categories"`
			Audits map[string]struct {
				Score *float64 `json:"score"`
				Title string   `json:"title"`
			} `json:"audits"`
		}
		if err := json.Unmarshal(content, &report); err != nil {
			t.Fatal(err)
		}
		for category, c := range report.Categories {
			t.Logf("%s: %s %.0f", path, category, 100*c.Score)
			least := 1.0
			if category == "performance" {
				least = 0.98
			}
			if c.Score >= least {
				continue
			}
			t.Errorf("%s: %s has only %.0f", path, category, 100*c.Score)
			for _, ref := range c.AuditRefs {
				if a := report.Audits[ref.ID]; ref.Weight > 0 && a.Score != nil && *a.Score < 1 {
					t.Logf("  %s: %.2f %s", ref.ID, *a.Score, a.Title)
				}
			}
		}
	}
}
