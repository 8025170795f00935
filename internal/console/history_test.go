package console_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"novelgate/aggregates/novel"
	"novelgate/aggregates/principal"
	"novelgate/events/ledger"
	"novelgate/events/ledger/ledgertest"
	"novelgate/internal/testdb"
)

var indexPattern = regexp.MustCompile(`<a href="/console/history/(\d+)">`)

// listed returns the log indexes of the events that a page lists.
func listed(page string) string {
	var indexes []string
	for _, found := range indexPattern.FindAllStringSubmatch(page, -1) {
		indexes = append(indexes, found[1])
	}
	return strings.Join(indexes, " ")
}

// TestHistory: the history is listed newest first, with the names of who did what and why, filtered by what people call
// things, and page by page in both directions.
func TestHistory(t *testing.T) {
	t.Parallel()
	f := newFixture(t) // 0, 1: the key of Ada; 2, 3: that of Otto
	ada := *f.staff
	ada.Actor = "staff:Ada"
	partner := testdb.Must(ada.CreateIntegration(t.Context(), "Fan <Site>", principal.Change{}))(t)
	made := testdb.Must(ada.PublishNovel(t.Context(), "Genji <b>", novel.Fields{}, "our own"))(t)
	all := f.auditor.get(t, "/console/history")
	last := testdb.Value[int](t, f.staff.Pool, `SELECT max(log_index) FROM events`)
	count := strings.Count(all, `<li class="item"`)
	if count != last+1 || !strings.HasPrefix(listed(all), fmt.Sprint(last)) || !strings.HasSuffix(listed(all), " 0") {
		t.Errorf("%d of %d: %s", count, last+1, listed(all))
	}
	for _, want := range []string{
		"Fan &lt;Site&gt;", "Genji &lt;b&gt;", "<bdi>staff:Ada</bdi>", "/console/novels/" + made.NovelID.String(),
	} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in %s", want, all)
		}
	}
	created := testdb.Value[int](t, f.staff.Pool, `SELECT log_index::int FROM events WHERE stream_type = 'integration'`)
	testdb.Exec(t, f.staff.Pool, `ALTER TABLE events DISABLE TRIGGER USER`)
	testdb.Exec(t, f.staff.Pool, `UPDATE events SET recorded_at = '2026-01-01T00:00:00Z'::timestamptz + log_index * interval '1 hour'`)
	hour := func(index int) string {
		return time.Date(2026, 1, 1, index, 0, 0, 0, time.UTC).Format("2006-01-02T15:04")
	}
	for query, want := range map[string]string{
		"type=integration.registered.v1":     fmt.Sprint(created),
		"integration=fan+%3Csite%3E&to=":     fmt.Sprint(created),
		"actor=Ada&novel=genji+%3Cb%3E":      listed(f.ada.get(t, "/console/history/streams/novel/"+made.NovelID.String())),
		"stream=" + partner.ID.String():      fmt.Sprint(created),
		"from=" + hour(1) + "&to=" + hour(3): "2 1",
		"from=" + hour(3) + "&to=" + hour(1): "",
		"day=2026-01-01&before=1":            "0",
		"day=2025-12-31":                     "",
		"after=" + fmt.Sprint(last-1):        fmt.Sprint(last),
		"correlation=none":                   "",
	} {
		if got := listed(f.ada.get(t, "/console/history?"+query)); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	for _, path := range []string{
		"?day=x", "?novel=nothing", "?from=x", "?after=99", "/99", "/streams/post/" + partner.ID.String(),
	} {
		w := f.ada.do(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/console/history"+path, nil))
		if w.Code != http.StatusBadRequest && w.Code != http.StatusNotFound {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
	for i := range 60 {
		testdb.Must(ada.PublishNovel(t.Context(), fmt.Sprint("Novel ", i), novel.Fields{}, ""))(t)
	}
	pages, next := 0, "/console/history"
	seen := ""
	for ; next != ""; pages++ {
		page := f.ada.get(t, next)
		seen += listed(page) + " "
		next = ""
		if found := regexp.MustCompile(`<a rel="next" href="([^"]*)"`).FindStringSubmatch(page); found != nil {
			next = "/console" + strings.TrimPrefix(found[1], "/console")
		}
	}
	end := testdb.Value[int](t, f.staff.Pool, `SELECT max(log_index) FROM events`)
	if n := len(strings.Fields(seen)); n != end+1 || pages < 2 {
		t.Errorf("%d events on %d pages, want %d", n, pages, end+1)
	}
}

// TestReadsAreRecorded: every read of the history is in the access log as the reads of the interface are, also one that
// fails, and the log is shown.
func TestReadsAreRecorded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	testdb.Must(f.staff.PublishNovel(t.Context(), "Genji", novel.Fields{}, ""))(t)
	stream := testdb.Value[string](t, f.staff.Pool, `SELECT stream_id::text FROM events WHERE stream_type = 'novel' LIMIT 1`)
	for _, path := range []string{
		"?limited=", "?type=person_key.issued.v9&day=", "/0", "/99", "/streams/novel/" + stream, "/reads", "/0/proof",
	} {
		f.auditor.do(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/console/history"+path, nil))
	}
	got := testdb.Values[string](t, f.staff.Pool, `SELECT concat_ws(' ', role, name, person_id IS NOT NULL, key_id IS NOT NULL,
    request_id <> '', route, parameters, rows_returned, ended_at IS NOT NULL) FROM access_log ORDER BY entry_id`)
	of := testdb.Value[int](t, f.staff.Pool, `SELECT count(*)::int FROM events WHERE stream_id = $1`, stream)
	want := []string{
		`auditor Otto t t t /console/history {"type":"person_key.issued.v9"} 0 t`,
		`auditor Otto t t t /console/history/{logIndex} {"{logIndex}":"0"} 1 t`,
		`auditor Otto t t t /console/history/{logIndex} {"{logIndex}":"99"} 0 t`,
		fmt.Sprintf(`auditor Otto t t t /console/history/streams/{streamType}/{streamId} {"{streamId}":"%s","{streamType}":"novel"} %d t`, stream, of),
		`auditor Otto t t t /console/history/reads {} 5 t`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +recorded):\n%s", diff)
	}
	if page := f.ada.get(t, "/console/history/reads"); strings.Count(page, "<bdi>Otto</bdi>") != 5 ||
		!strings.Contains(page, "/console/history/{logIndex}") {
		t.Error(page)
	}
	// What the routes of staff show, and would not show to an auditor: without the identifier of an author.
	f.auditor.get(t, "/console/comments?state=hidden")
	f.auditor.get(t, "/console/authors/"+f.partner(t, "Fan Site").String()+"/member%2F5")
	f.auditor.get(t, "/console/counts")
	if got := testdb.Value[string](t, f.staff.Pool, `SELECT string_agg(route || ' ' || parameters, ' ' ORDER BY entry_id)
FROM access_log WHERE name = 'Otto' AND route NOT LIKE '%history%'`); !strings.HasPrefix(got, `/console/comments {"state":"hidden"} `+
		`/console/authors/{integrationId}/{uuid`) || strings.Contains(got, "member") {
		t.Errorf("an auditor's reads of other pages: %s", got)
	}
	testdb.Exec(t, f.staff.Pool, `ALTER TABLE access_log RENAME TO elsewhere`)
	w := f.ada.do(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/console/history", nil))
	if w.Code != http.StatusInternalServerError || strings.Contains(w.Body.String(), `class="item"`) {
		t.Errorf("without an entry there is no answer: %d %s", w.Code, w.Body)
	}
}

// TestEvent: the page of an event shows what is stored, and the proof that the server has checked, also of an event
// whose personal data are erased. The proof of a changed event does not hold. The file is what the command line checks.
func TestEvent(t *testing.T) {
	t.Parallel()
	l := ledgertest.New(t)
	f := newFixtureOn(t, l.URL)
	first := testdb.Value[int](t, l.Pool, `SELECT count(*)::int FROM events`)
	testdb.NoError(t, ledgertest.TryAppend(t.Context(), l.Pool, 3))
	path := fmt.Sprint("/console/history/", first)
	if page := f.ada.get(t, path); !strings.Contains(page, "No checkpoint covers this event yet") {
		t.Error(page)
	}
	size := l.Sign()
	page := f.auditor.get(t, path)
	for _, want := range []string{
		">holds<", fmt.Sprintf("ledger of %d entries", size), ledgertest.Origin, "&#34;chapterNumber&#34;: 0",
		"some words of", path + "/proof", "c2sp.org/tlog-proof", fmt.Sprintf("/console/history?before=%d", first),
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in %s", want, page)
		}
	}
	proven := testdb.Must(ledger.CheckProof([]byte(f.auditor.get(t, path+"/proof")), l.Keys))(t)
	if proven.LogIndex != int64(first) {
		t.Errorf("%+v", proven)
	}
	l.Tamper(fmt.Sprintf(`UPDATE events SET personal = json_build_object('content', 'forged') WHERE log_index = %d`, first))
	if page := f.ada.get(t, path); !strings.Contains(page, "does not hold") || strings.Contains(page, ">holds<") {
		t.Error(page)
	}
	refused := f.auditor.post(t, path, url.Values{})
	if refused.Code != http.StatusMethodNotAllowed {
		t.Errorf("the history takes forms: %d", refused.Code)
	}
}
