package readapi_test

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"novelgate/events"
	"novelgate/readapi"
)

func TestNovelsAreSortedAndFiltered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	in := func(language string, genres ...string) func(*events.NovelCreated) {
		return func(e *events.NovelCreated) { e.Language, e.Genres = language, genres }
	}
	quiet := w.novel(t, "Quiet", in("fr", "Fantasy"))
	quoted := w.novel(t, "\u201cBeta\u201d", in("EN", "Mystery", "Fantasy"))
	number := w.novel(t, "#1 Alpha", in("en"))
	w.novel(t, "Silent", in("", "fantasy"))
	w.novel(t, "Pending", func(e *events.NovelCreated) { e.State = "pending" })
	w.comment(t, quoted, events.PostImported{WrittenAt: start.Add(time.Hour)})
	w.comment(t, number, events.PostImported{WrittenAt: start.Add(2 * time.Hour)})
	w.comment(t, quiet, events.PostImported{WrittenAt: start})
	w.project(t)
	for query, want := range map[string][]string{
		"sort=title":                    {"#1 Alpha", "\u201cBeta\u201d", "Quiet", "Silent"},
		"sort=activity":                 {"#1 Alpha", "\u201cBeta\u201d", "Quiet", "Silent"},
		"sort=newest":                   {"Silent", "#1 Alpha", "\u201cBeta\u201d", "Quiet"},
		"sort=activity&genre=Fantasy":   {"\u201cBeta\u201d", "Quiet"},
		"sort=newest&language=en":       {"#1 Alpha", "\u201cBeta\u201d"},
		"sort=title&owner=fan+site&q=i": {"Quiet", "Silent"},
		"sort=activity&q=alpha":         {"#1 Alpha"},
		"sort=newest&genre=None":        {},
	} {
		for limit := 1; limit <= 5; limit++ {
			if diff := cmp.Diff(want, allTitles(t, w, query, limit)); diff != "" {
				t.Errorf("%s, limit %d (-want +got):\n%s", query, limit, diff)
			}
		}
		checkPage(t, w, "/novels?"+query)
	}
	cursor := *read[listAnswer](t, w, "/api/novels?sort=activity&limit=1").NextCursor
	wantProblem(t, w, "/api/novels?sort=newest&cursor="+cursor, 400, "invalid_request")
}

// positions returns the positions and sizes of the pages of a discussion.
func positions(t *testing.T, w *world, query string) (got []string) {
	t.Helper()
	for cursor := ""; ; {
		body := read[struct {
			discussionAnswer `json:",inline"`

			Counts struct {
				Comments int  `json:"comments"`
				Replies  int  `json:"replies"`
				Position *int `json:"position"`
			} `json:"counts"`
		}](t, w, "/api/novels/a/discussion?limit=3&"+query+cursor)
		place := 0
		if body.Counts.Position != nil {
			place = *body.Counts.Position
		}
		got = append(got, fmt.Sprintf("%d+%d of %d, %d", place, len(body.Items), body.Counts.Comments, body.Counts.Replies))
		if body.NextCursor == nil {
			return got
		}
		query, _, _ = strings.Cut(query, "&post=")
		cursor = "&cursor=" + url.QueryEscape(*body.NextCursor)
	}
}

func TestDiscussionsAreCounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	novel := w.novel(t, "A", nil)
	var all []uuid.UUID
	for i := range 7 {
		e := events.PostImported{}
		if i%2 == 0 {
			e.ChapterNumber = []byte("12.50")
		}
		all = append(all, w.comment(t, novel, e))
	}
	for range 6 {
		w.comment(t, novel, reply(all[3]))
	}
	w.project(t)
	for query, want := range map[string][]string{
		"sort=oldest":                         {"1+3 of 7, 6", "4+3 of 7, 6", "7+1 of 7, 6"},
		"sort=newest":                         {"1+3 of 7, 6", "4+3 of 7, 6", "7+1 of 7, 6"},
		"sort=oldest&chapter=12.5":            {"1+3 of 4, 0", "4+1 of 4, 0"},
		"sort=newest&chapter=none":            {"1+3 of 3, 6"},
		"sort=newest&chapter=3":               {"0+0 of 0, 0"},
		"sort=newest&post=" + all[4].String(): {"3+3 of 7, 6", "6+2 of 7, 6"},
		"sort=oldest&post=" + all[5].String(): {"6+2 of 7, 6"},
	} {
		if diff := cmp.Diff(want, positions(t, w, query)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", query, diff)
		}
	}
	page := w.get(t, "/novels/a/discussion?limit=3").Body.String()
	for _, want := range []string{
		"Comments 1–3 of 7, with 6 replies in all", "Jump to the latest",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the discussion does not say %q", want)
		}
	}
	// The count may be behind the comments.
	w.exec(t, `UPDATE thread_activity SET posts = posts - 1`)
	const query = "?sort=oldest&limit=6"
	next := *read[discussionAnswer](t, w, "/api/novels/a/discussion"+query).NextCursor
	page = w.get(t, "/novels/a/discussion"+query+"&cursor="+url.QueryEscape(next)).Body.String()
	if want := "Comment 7 of 7, with 6 replies in all"; !strings.Contains(page, want) {
		t.Errorf("the last page does not say %q", want)
	}
	page = w.get(t, "/novels/a/discussion").Body.String()
	if !strings.Contains(page, `<details class="replies"><summary>6 replies`) {
		t.Error("six replies are not folded")
	}
	page = w.get(t, "/novels/a/discussion?post="+all[3].String()).Body.String()
	if !strings.Contains(page, `<details class="replies" open><summary>6 replies`) {
		t.Error("a link to a comment does not show its replies")
	}
}

// TestHome: the latest activity or, without novels, how to begin.
func TestHome(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if page := w.get(t, "/").Body.String(); !strings.Contains(page, "integration create") ||
		!strings.Contains(page, public+"/api/integrations/posts") {
		t.Errorf("the page of an empty platform does not say how to begin:\n%s", page)
	}
	checkPage(t, w, "/")
	for i, title := range []string{"Old", "Fresh", "Hidden"} {
		novel := w.novel(t, title, nil)
		for j := range i + 1 {
			ago := time.Duration(3-i)*time.Minute + time.Duration(j)*time.Second
			w.comment(t, novel, events.PostImported{WrittenAt: w.now.Add(-ago)})
		}
	}
	w.comment(t, w.novel(t, "Last Year", nil), events.PostImported{})
	w.project(t)
	w.exec(t, `UPDATE posts SET hidden = true WHERE novel_id = $1`, events.NovelID("hidden"))
	got := read[struct {
		Latest []struct {
			Novel novelAnswer `json:"novel"`
		} `json:"latest"`
		Discussed []struct {
			Novel    string `json:"novel"`
			Comments int    `json:"comments"`
		} `json:"discussed"`
	}](t, w, "/api/activity")
	latest, discussed := []string{}, []string{}
	for _, l := range got.Latest {
		latest = append(latest, l.Novel.Novel)
	}
	for _, d := range got.Discussed {
		discussed = append(discussed, fmt.Sprint(d.Novel, " ", d.Comments))
	}
	if diff := cmp.Diff([]string{"Fresh", "Old", "Last Year"}, latest); diff != "" {
		t.Errorf("latest (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"Hidden 3", "Fresh 2", "Old 1"}, discussed); diff != "" {
		t.Errorf("discussed (-want +got):\n%s", diff)
	}
	checkPage(t, w, "/")
}

// TestChapterChart: the most discussed chapters, in their order. Of equally discussed ones the first are shown.
func TestChapterChart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	novel := w.novel(t, "A", nil)
	var want []readapi.Chapter
	for i := range 30 {
		comments := 1 + i/28 // the last two chapters have two
		for range comments {
			w.comment(t, novel, events.PostImported{ChapterNumber: fmt.Append(nil, i)})
		}
		if i < 18 || comments > 1 {
			want = append(want, readapi.Chapter{Number: strconv.Itoa(i), Posts: comments})
		}
	}
	w.project(t)
	found, err := (&readapi.Reader{DB: w.Read}).Chapters(t.Context(), novel)
	if diff := cmp.Diff(want, found); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	checkPage(t, w, "/novels/a")
}

// TestFeedsAndSitemaps are valid XML for any text, and show only what readers may see.
func TestFeedsAndSitemaps(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	novel := w.novel(t, "A", nil)
	for _, content := range hostileTitles {
		w.comment(t, novel, events.PostImported{
			Comment: &events.Comment{ExternalUUID: "u", Username: content, Content: content},
		})
	}
	hidden := w.comment(t, novel, events.PostImported{})
	w.novel(t, "Pending", func(e *events.NovelCreated) { e.State = "pending" })
	w.project(t)
	w.exec(t, `UPDATE posts SET hidden = true WHERE post_id = $1`, hidden)
	for path, want := range map[string]map[string]int{
		"/novels/a/feed.atom":              {"entry": len(hostileTitles)},
		"/feed.atom":                       {"entry": 0}, // the latest comment is hidden
		"/sitemap.xml":                     {"sitemap": 2},
		"/sitemaps/0":                      {"url": 2}, // the lists
		fmt.Sprint("/sitemaps/", novel[0]): {"url": 2},
	} {
		decoder, found := xml.NewDecoder(w.get(t, path).Body), map[string]int{}
		for {
			token, err := decoder.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			if e, ok := token.(xml.StartElement); ok {
				found[e.Name.Local]++
			}
		}
		for name, n := range want {
			if found[name] != n {
				t.Errorf("%s: %v, want %v", path, found, want)
			}
		}
	}
	for _, path := range []string{"/sitemaps/1", "/sitemaps/256", "/sitemaps/x", "/novels/pending/feed.atom"} {
		if got := w.get(t, path); got.Code != http.StatusNotFound {
			t.Errorf("%s: %d", path, got.Code)
		}
	}
	if body := w.get(t, "/robots.txt").Body.String(); !strings.Contains(body, "Sitemap: "+public+"/sitemap.xml") {
		t.Error(body)
	}
	if link := w.get(t, "/novels?genre=%22%3E").Header().Get("Link"); link !=
		`</books/api/novels?genre=%22%3E&sort=activity>; rel="alternate"; type="application/json"` {
		t.Errorf("Link: %s", link)
	}
}

// TestDescriptions have what search engines require and, where it applies, recommend
// (https://developers.google.com/search/docs/appearance/structured-data/discussion-forum). `make check-pages` compares
// them with the vocabulary of schema.org.
func TestDescriptions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	novel := w.novel(t, "A", func(e *events.NovelCreated) {
		e.Author, e.Synopsis, e.Genres, e.Language = "Ida Verne", "A boy finds a watch.", []string{"Fantasy"}, "eng"
		e.CoverURL = "https://covers.example/a.jpg"
	})
	hidden := w.comment(t, novel, events.PostImported{})
	id := w.comment(t, novel, events.PostImported{Comment: &events.Comment{
		ExternalUUID: "u", Username: "</script>", Content: strings.Repeat("界", 300),
	}})
	w.novel(t, "Bare", nil)
	w.project(t)
	w.exec(t, `UPDATE posts SET hidden = true WHERE post_id = $1`, hidden)
	const page = public + "/novels/a"
	about := map[string]any{"@type": "Book", "@id": page, "name": "A"}
	address := page + "/discussion?post=" + id.String() + "#post-" + id.String()
	for path, want := range map[string]any{
		"/novels/a": map[string]any{
			"@context": "https://schema.org", "@type": "Book", "@id": page, "url": page, "name": "A",
			"author": map[string]any{"@type": "Person", "name": "Ida Verne"}, "description": "A boy finds a watch.",
			"genre": []any{"Fantasy"}, "inLanguage": "en", "image": "https://covers.example/a.jpg",
			"discussionUrl": page + "/discussion", "commentCount": 2.,
		},
		"/novels/bare": map[string]any{
			"@context": "https://schema.org", "@type": "Book", "@id": public + "/novels/bare", "url": public + "/novels/bare",
			"name":          "Bare", // its author is unknown
			"discussionUrl": public + "/novels/bare/discussion", "commentCount": 0.,
		},
		"/novels/a/discussion": []any{map[string]any{
			"@context": "https://schema.org", "@type": "DiscussionForumPosting", "@id": address, "url": address, "about": about,
			"author": map[string]any{"@type": "Person", "name": "</script>"}, "datePublished": "2025-03-01T12:04:00Z",
			"headline": "Comment on A", "text": strings.Repeat("界", 200) + "…",
		}},
		"/novels/bare/discussion": nil,
	} {
		var got any
		for _, e := range checkPage(t, w, path) {
			if e.Data == "script" {
				if err := json.Unmarshal([]byte(text(e.Node)), &got); err != nil {
					t.Errorf("%s: %v", path, err)
				}
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
}

// TestNovelsHaveColours: a novel without a cover has the same colour everywhere, which the style sheet defines.
func TestNovelsHaveColours(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 40 {
		w.novel(t, fmt.Sprint("Novel ", i), nil)
	}
	w.project(t)
	colour := regexp.MustCompile(`class="cover (hue\d+)`)
	style := regexp.MustCompile(`/assets/style[^"]+`).FindString(w.get(t, "/").Body.String())
	sheet := w.get(t, style).Body.String()
	found := map[string]bool{}
	for _, match := range colour.FindAllStringSubmatch(w.get(t, "/novels?limit=100").Body.String(), -1) {
		if found[match[1]] = true; !strings.Contains(sheet, "."+match[1]+" {") {
			t.Errorf("%s has no %s", style, match[1])
		}
	}
	if len(found) < 4 {
		t.Errorf("40 novels have the colours %v", found)
	}
	first := colour.FindStringSubmatch(w.get(t, "/novels?q=Novel+39").Body.String())
	if again := colour.FindStringSubmatch(w.get(t, "/novels/novel-39").Body.String()); again[1] != first[1] {
		t.Errorf("the page of a novel has the colour %s, the list %s", again[1], first[1])
	}
}

// TestFewComments: pages with little to show have no controls for more.
func TestFewComments(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.novel(t, "Empty", nil)
	novel := w.novel(t, "Small", func(e *events.NovelCreated) { e.Author = "Ida Verne" })
	top := w.comment(t, novel, events.PostImported{Comment: &events.Comment{
		ExternalUUID: "u", Username: "n", Content: strings.Repeat("lighthouse ", 30),
	}})
	w.comment(t, novel, reply(top))
	w.comment(t, novel, reply(top))
	w.comment(t, w.novel(t, "Lines", nil), events.PostImported{Comment: &events.Comment{
		ExternalUUID: "u", Username: "n", Content: strings.Repeat("lighthouse ", 17) + "of the keeper\nand his cat",
	}})
	w.project(t)
	for _, want := range []struct{ path, has, lacks string }{
		{"/novels/empty", "Author unknown", "Unknown"},
		{"/novels/small", "by <bdi>Ida Verne</bdi>", "Author unknown"},
		{"/novels/small", "lighthouse…", "lighth…"},
		{"/novels/lines", "of the keeper…", "of the…"}, // 200 characters, then the line ends
		{"/novels/empty/discussion", "There are no comments yet.", "Oldest first"},
		{"/novels/empty/discussion?chapter=1", "There are no comments on this chapter.", "<h2"},
		{"/novels/small/discussion", "1 comment, with 2 replies", "<details"},
		{"/novels/small/discussion", "Oldest first", "in reply to"}, // the replies are indented below the comment
	} {
		page := w.get(t, want.path).Body.String()
		if !strings.Contains(page, want.has) || strings.Contains(page, want.lacks) {
			t.Errorf("%s lacks %q or has %q:\n%s", want.path, want.has, want.lacks, page)
		}
	}
}

// TestRecentTimes are relative to now.
func TestRecentTimes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	want := []string{"just now", "1 minute ago", "2 minutes ago", "1 hour ago", "23 hours ago", "1 day ago", "3 days ago"}
	for i, ago := range []time.Duration{
		0, time.Minute, 3*time.Minute - time.Second, 90 * time.Minute, 24*time.Hour - time.Second, 25 * time.Hour,
		73 * time.Hour,
	} {
		novel := w.novel(t, fmt.Sprint("Novel ", i), nil)
		w.comment(t, novel, events.PostImported{WrittenAt: w.now.Add(-ago)})
	}
	w.project(t)
	got := []string{}
	for _, e := range elements(t, w.get(t, "/novels").Body.String()) {
		if e.Data == "time" {
			got = append(got, text(e.Node))
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("times (-want +got):\n%s", diff)
	}
}
