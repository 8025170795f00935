package readapi_test

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"novelgate/events"
	"novelgate/readapi"
)

func TestNovelsAreSortedAndFiltered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	in := func(language, author string, genres ...string) func(*events.NovelCreated) {
		return func(e *events.NovelCreated) { e.Language, e.Author, e.Genres = language, author, genres }
	}
	quiet := w.novel(t, "Quiet", in("fran\u00e7ais", "Musset", "Fantasy"))
	w.flush(t)
	quoted := w.novel(t, "\u201cBeta\u201d", in("EN", "Ida Verne", "Mystery", "Fantasy"))
	w.append(t, events.NovelStream, quoted, events.NovelUpdated{Author: new("Ani V\u00e9rne")})
	w.flush(t) // the others are newer
	number := w.novel(t, "#1 Alpha", func(e *events.NovelCreated) { in("en", "Unknown")(e); hosted(e) })
	w.flush(t)
	w.novel(t, "Silent", in("", "Ni\u0308na Verne", "fantasy"))
	w.novel(t, "Pending", func(e *events.NovelCreated) { e.State = "pending" })
	w.comment(t, quoted, events.PostImported{WrittenAt: start.Add(time.Hour)})
	w.comment(t, number, events.PostImported{WrittenAt: start.Add(2 * time.Hour)})
	w.comment(t, quiet, events.PostImported{WrittenAt: start})
	w.project(t)
	for query, want := range map[string][]string{
		"sort=title":                     {"#1 Alpha", "\u201cBeta\u201d", "Quiet", "Silent"},
		"sort=activity":                  {"#1 Alpha", "\u201cBeta\u201d", "Quiet", "Silent"},
		"sort=newest":                    {"Silent", "#1 Alpha", "\u201cBeta\u201d", "Quiet"},
		"sort=activity&genre=Fantasy":    {"\u201cBeta\u201d", "Quiet"},
		"sort=newest&language=en":        {"#1 Alpha", "\u201cBeta\u201d"},
		"sort=title&owner=fan+site&q=il": {"Silent"},
		"sort=title&q=set+qui":           {"Quiet"}, // words of title and author, in any order
		"sort=newest&q=N\u00cf+verne":    {"Silent", "\u201cBeta\u201d"},
		"sort=newest&q=Unknown":          {},
		"sort=title&language=fRANCAIS":   {}, "sort=title&language=FRAN\u00c7AIS": {"Quiet"},
		"sort=activity&q=alpha": {"#1 Alpha"}, "sort=title&q=%25": {}, "sort=title&q=pend": {},
		"sort=title&state=approved&owner=fan+SITE": {"\u201cBeta\u201d", "Quiet", "Silent"},
		"sort=title&state=published":               {"#1 Alpha"}, "sort=title&owner=host": {"#1 Alpha"},
		"sort=title&owner=nobody": {},
		"sort=newest&genre=None":  {},
	} {
		for _, limit := range []int{1, 3, 5} {
			if diff := cmp.Diff(want, allTitles(t, w, query, limit)); diff != "" {
				t.Errorf("%s, limit %d (-want +got):\n%s", query, limit, diff)
			}
		}
	}
	checkPage(t, w, "/novels?sort=title&owner=fan+site&q=il&genre=fantasy")
}

// TestTitlesAreSortedAsReadersExpect: letters that only Latin alphabets of one language have are not behind Z.
func TestTitlesAreSortedAsReadersExpect(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	want := []string{
		"Ærlighed", "A\u030angstr\u00f6m", "Đorđe", "E\u0301clair", "Łódź", "Lz", "Ørsted", "Oslo", "Ｐlain", "Straße",
		"Streets", "Zebra", "Ωmega",
	}
	for i, title := range want {
		novel := w.novel(t, title, nil)
		if i < 5 { // as many as the list of the most discussed ones has
			w.comment(t, novel, events.PostImported{WrittenAt: w.now})
		}
	}
	w.project(t)
	if diff := cmp.Diff(want, allTitles(t, w, "sort=title", 5)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	discussed := read[struct {
		Discussed []novelAnswer `json:"discussed"`
	}](t, w, "/api/activity").Discussed
	if diff := cmp.Diff(want[:5], titles(listAnswer{Items: discussed})); diff != "" {
		t.Errorf("equally discussed (-want +got):\n%s", diff)
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
	type counts struct {
		Comments int `json:"comments"`
		Replies  int `json:"replies"`
	}
	for query, want := range map[string]counts{
		"": {7, 6}, "chapter=12.5": {4, 0}, "chapter=none": {3, 6}, "chapter=3": {0, 0}, "post=" + all[4].String(): {7, 6},
	} {
		got := read[struct {
			Counts counts `json:"counts"`
		}](t, w, "/api/novels/a/discussion?limit=3&"+query)
		if got.Counts != want {
			t.Errorf("%q: %v, want %v", query, got.Counts, want)
		}
	}
	for path, want := range map[string][]string{
		"?limit=3":                 {"7 comments, with 6 replies", "Jump to the latest"},
		"":                         {`<details class="replies"><summary>6 replies`}, // folded
		"?post=" + all[3].String(): {`<details class="replies" open><summary>6 replies`},
	} {
		for _, text := range want {
			if page := w.get(t, "/novels/a/discussion"+path).Body.String(); !strings.Contains(page, text) {
				t.Errorf("the discussion %s does not say %q", path, text)
			}
		}
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

// TestLatestIsVisible: a flood of hidden comments hides no visible one from the lists of the latest.
func TestLatestIsVisible(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var hidden []uuid.UUID
	for i := range 60 {
		novel := w.novel(t, fmt.Sprint("Flooded ", i), nil)
		w.comment(t, novel, events.PostImported{WrittenAt: start.AddDate(-1, 0, i)})
		spam := w.comment(t, novel, events.PostImported{WrittenAt: start.AddDate(1, 0, i)})
		hidden = append(hidden, spam, w.comment(t, novel, events.PostImported{
			ParentPostID: &spam, WrittenAt: start.AddDate(1, 0, i).Add(time.Hour),
		}))
	}
	quiet := w.novel(t, "Quiet", nil)
	want := []uuid.UUID{}
	for i := range 30 { // on one novel
		want = append(want, w.comment(t, quiet, events.PostImported{WrittenAt: start.Add(time.Duration(i) * time.Minute)}))
	}
	for range 50 {
		hidden = append(hidden, w.comment(t, quiet, events.PostImported{WrittenAt: start.Add(time.Hour)}))
	}
	w.project(t)
	w.exec(t, `UPDATE posts SET hidden = true WHERE post_id = ANY ($1)`, hidden)
	slices.Reverse(want)
	for path, entries := range map[string]int{"/feed.atom": 20, "/novels/quiet/feed.atom": 20} {
		feed := w.get(t, path).Body.String()
		if n := strings.Count(feed, "<entry>"); n != entries || !strings.Contains(feed, want[0].String()) ||
			strings.Index(feed, want[0].String()) > strings.Index(feed, "</entry>") {
			t.Errorf("%s has %d entries, of which the first is not the latest visible comment:\n%.3000s", path, n, feed)
		}
	}
	activity := read[struct {
		Latest []postAnswer `json:"latest"`
	}](t, w, "/api/activity")
	if len(activity.Latest) != 6 || activity.Latest[0].PostID != want[0] {
		t.Errorf("%+v", activity.Latest)
	}
	page := w.get(t, "/novels/quiet").Body.String()
	for i, id := range want[:4] {
		if strings.Contains(page, id.String()) != (i < 3) {
			t.Errorf("the page of the novel has comment %d: %v", i, i >= 3)
		}
	}
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
			want = append(want, readapi.Chapter{Number: readapi.ChapterNumber(strconv.Itoa(i)), Posts: comments})
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
		"/feed.atom":                       {"entry": 1},
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

// TestTeasers: one link to the comment says who wrote it, on which chapter and when. The text is cut between characters
// as readers see them, and a character with thousands of marks is no reason for a long page.
func TestTeasers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i, c := range []struct{ chapter, content, teaser, said string }{
		{"", strings.Repeat("e\u0301", 300), strings.Repeat("e\u0301", 200) + "…", "n · just now"},
		{"0", strings.Repeat("👩‍👩‍👧‍👦", 201), strings.Repeat("👩‍👩‍👧‍👦", 200) + "…", "n · Prologue · just now"},
		{"12.5", "So " + strings.Repeat("🇳🇴", 300), "So " + strings.Repeat("🇳🇴", 197) + "…", "n · Chapter 12.5 · just now"},
		{"7", "Zalgo Z" + strings.Repeat("\u0335\u0327", 5000), "Zalgo…", "n · Chapter 7 · just now"},
		{
			"8", "Z" + strings.Repeat("\u0335\u0327", 5000), "Z" + strings.Repeat("\u0335\u0327", 1599) + "\u0335…",
			"n · Chapter 8 · just now",
		},
	} {
		novel := w.novel(t, fmt.Sprint("A", i), nil)
		e := events.PostImported{
			WrittenAt: w.now, Comment: &events.Comment{ExternalUUID: "u", Username: "n", Content: c.content},
		}
		on := ""
		if c.chapter != "" {
			e.ChapterNumber = []byte(c.chapter)
			on = "," + strings.Trim(strings.TrimPrefix(c.said, "n ·"), "·")
			on = strings.TrimSuffix(on, " · just now")
		}
		id := w.comment(t, novel, e).String()
		w.project(t)
		for _, path := range []string{"/", "/novels/a" + strconv.Itoa(i)} {
			links, texts := []string{}, []string{}
			for _, e := range checkPage(t, w, path) {
				switch {
				case e.Data == "a" && strings.HasSuffix(e.attributes["href"], "#post-"+id):
					links = append(links, text(e.Node))
				case e.attributes["class"] == "teaser":
					texts = append(texts, text(e.Node))
				}
			}
			if !slices.Equal(links, []string{c.said}) || !slices.Contains(texts, c.teaser) {
				t.Errorf("%s, %s: links %q, teasers %.300q", path, c.said, links, texts)
			}
		}
		feed := w.get(t, fmt.Sprint("/novels/a", i, "/feed.atom")).Body.String()
		if want := fmt.Sprint("<title>n on A", i, on, "</title>"); !strings.Contains(feed, want) {
			t.Errorf("the feed lacks %s:\n%.1000s", want, feed)
		}
	}
}

// TestCoverLetters: the letter of a novel without a cover is the first one after an article.
func TestCoverLetters(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i, c := range []struct{ title, language, letter string }{
		{"The Clockmaker", "", "C"},
		{"the lamplighter", "zh", "L"},
		{"A Boy", "en", "B"},
		{"“An Owl", "", "O"},
		{"The", "", "T"},
		{"A", "", "A"},
		{"The …", "en", "T"},
		{"Thea", "", "T"},
		{"An", "en", "A"},
		{"L'E\u0301tranger", "fr", "E\u0301"},
		{"L\u2019\u00e9tranger", "fr-CA", "\u00c9"},
		{"L'Amour", "", "L"},
		{"Die Blechtrommel", "de", "B"},
		{"Die Another Day", "en", "D"},
		{"El jardín", "spa", "J"},
		{"La", "fr", "L"},
		{"Les Misérables", "fr", "M"},
		{"紅樓夢", "zh", "紅"},
		{"1984", "", "1"},
		{"!?", "", ""},
	} {
		slug := fmt.Sprint("n", i)
		w.novel(t, c.title, func(e *events.NovelCreated) { e.Slug, e.Language = slug, c.language })
		for _, e := range checkPage(t, w, "/novels/"+slug) {
			if e.Data == "span" && e.attributes["aria-hidden"] == "true" && text(e.Node) != c.letter {
				t.Errorf("%q in %q has the letter %q, want %q", c.title, c.language, text(e.Node), c.letter)
			}
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
