//go:build checks

package readapi_test

import (
	"bytes"
	"log/slog"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"novelgate/events"
	"novelgate/internal/httpkit"
	"novelgate/readapi"
	"novelgate/readapi/pages"
)

// TestChecks runs the tools of checks/package.json on a page of each kind: the Nu checker (it needs Java), html-validate,
// and Lighthouse with Chromium.
func TestChecks(t *testing.T) {
	w := newWorld(t)
	bigDiscussion(t, w)
	w.novel(t, "The Clockmaker", func(e *events.NovelCreated) {
		e.Author, e.Synopsis, e.Genres, e.ReadingStatus, e.Language, e.Slug = "Ida Verne",
			strings.Repeat("A boy finds a watch. ", 30), []string{"Fantasy", "Mystery"}, "ongoing", "zh", "clock"
	})
	for i, text := range hostile[:16] {
		w.novel(t, text, func(e *events.NovelCreated) {
			e.Author, e.Synopsis, e.Slug = text, text, "hostile-"+string(rune('a'+i))
		})
	}
	w.project(t)
	made, err := pages.NewLogo([]byte(logo))
	if err != nil {
		t.Fatal(err)
	}
	site := pages.Site{Name: "Tales", Logo: made, Accent: "#206040", Covers: pages.NoCovers}
	server := httptest.NewUnstartedServer(nil)
	base := &url.URL{Scheme: "http", Host: server.Listener.Addr().String()}
	server.Config.Handler = routes(slog.New(slog.DiscardHandler), &readapi.Reader{DB: w.Read},
		httpkit.NewAddresses(base), site)
	server.Start()
	defer server.Close()

	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("checks")); err != nil {
		t.Fatal(err)
	}
	run(t, dir, "npm", "ci", "--no-audit", "--no-fund")
	paths := map[string]string{
		"start": "/", "catalogue": "/novels", "novel": "/novels/clock", "discussion": "/novels/a/discussion",
		"search": "/novels?q=nothing", "filtered": "/novels?genre=Fantasy&language=zh", "problem": "/novels/missing",
		"hostile-catalogue": "/novels?limit=100", "hostile-novel": "/novels/hostile-b",
		"oldest": "/novels/a/discussion?sort=oldest",
	}
	var files []string
	for name, path := range paths {
		got := httptest.NewRecorder()
		server.Config.Handler.ServeHTTP(got, httptest.NewRequestWithContext(t.Context(), "GET", path, nil))
		file := filepath.Join(dir, name+".html")
		if err := os.WriteFile(file, got.Body.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	java := append([]string{"-jar", "node_modules/vnu-jar/build/dist/vnu.jar", "--errors-only"}, files...)
	run(t, dir, "java", java...)
	run(t, dir, "npx", append([]string{"--no", "html-validate"}, files...)...)

	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("CHROME_PATH", chromium)
	for _, name := range []string{"start", "catalogue", "novel", "discussion"} {
		out := filepath.Join(dir, name+".json")
		run(t, dir, "npx", "--no", "lighthouse", server.URL+paths[name], "--quiet", "--output=json", "--output-path="+out,
			"--skip-audits=robots-txt", // it cannot be downloaded from a page that may connect to nothing
			"--only-categories=performance,accessibility,best-practices,seo",
			"--chrome-flags=--headless --no-sandbox --disable-gpu")
		content, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
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
			t.Logf("%s: %s %.0f", name, category, 100*c.Score)
			least := 1.0
			if category == "performance" {
				least = 0.98
			}
			if c.Score >= least {
				continue
			}
			t.Errorf("%s: %s has only %.0f", name, category, 100*c.Score)
			for _, ref := range c.AuditRefs {
				if a := report.Audits[ref.ID]; ref.Weight > 0 && a.Score != nil && *a.Score < 1 {
					t.Logf("  %s: %.2f %s", ref.ID, *a.Score, a.Title)
				}
			}
		}
	}
}

func run(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.WaitDelay = dir, time.Minute
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		t.Errorf("%s %.60s: %v\n%.6000s", name, strings.Join(args, " "), err, said.String())
	}
}
