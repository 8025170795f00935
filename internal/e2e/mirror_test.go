package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"novelgate/events"
	"novelgate/internal/testdb"
	"novelgate/projections"
)

// originKey saves the public keys of a service's ledger to a file.
func originKey(t testing.TB, origin *Service) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "origin.pub")
	var keys string
	testdb.Eventually(t, "the origin has signed a checkpoint", func() (signed bool) {
		var status int
		status, keys = Get(t, origin.URL+"/ledger/key")
		return status == http.StatusOK
	})
	if err := os.WriteFile(file, []byte(keys), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// mirrorFlags are the flags that make serve a mirror of a service.
func mirrorFlags(t testing.TB, origin *Service, databaseURL string) []string {
	t.Helper()
	auditor := &Person{}
	(&Service{DatabaseURL: databaseURL}).runJSON(t, auditor, "auditor", "create", Unique("mirror"))
	return []string{"--mirror", origin.URL, "--origin-key", originKey(t, origin), "--auditor-key", auditor.APIKey}
}

// startMirror starts a mirror on a database of its own.
func startMirror(t testing.TB, origin *Service, flags ...string) *Service {
	t.Helper()
	return Start(t, testdb.New(t), append(mirrorFlags(t, origin, origin.DatabaseURL), flags...)...)
}

// loggedSQL shows the log without positions, which belong to a cluster.
const loggedSQL = `SELECT (to_jsonb(l) - 'transaction_id' - 'position')::text || coalesce(encode(e.personal_digest, 'hex'), '')
FROM event_log AS l JOIN events AS e USING (transaction_id, position) ORDER BY transaction_id, position`

// wantMirrored waits until a mirror has all events of its origin and serves a checkpoint over them, and compares the
// two: the logs, the ledgers as they are served, the tables, and the tables of the mirror with its log. Call it when
// nobody sends.
func wantMirrored(t testing.TB, originURL, originDatabase, mirrorURL, mirrorDatabase string) {
	t.Helper()
	awaitSealed(t, originDatabase)
	size := value[int64](t, originDatabase, `SELECT count(*) FROM events`)
	testdb.Eventually(t, fmt.Sprintf("the mirror serves a checkpoint over %d entries", size), func() bool {
		return value[int64](t, mirrorDatabase, `SELECT coalesce(max(tree_size), 0) FROM ledger_checkpoints`) == size
	})
	logged := func(url string) []string { return testdb.Values[string](t, connect(t, url), loggedSQL) }
	if diff := cmp.Diff(logged(originDatabase), logged(mirrorDatabase)); diff != "" {
		t.Errorf("the log (-origin +mirror)\n%.3000s", diff)
	}
	paths := []string{"/ledger/checkpoint", "/ledger/key", fmt.Sprintf("/ledger/proof?logIndex=%d", size/2)}
	for level, n := 0, size; n > 0; level, n = level+1, n/256 {
		paths = append(paths, tilePaths(fmt.Sprint(level), n)...)
	}
	for _, path := range append(paths, tilePaths("entries", size)...) {
		wantStatus, want := Get(t, originURL+path)
		status, got := Get(t, mirrorURL+path)
		if status != http.StatusOK || wantStatus != http.StatusOK || got != want {
			t.Errorf("%s: the origin answers %d, the mirror %d, or they differ", path, wantStatus, status)
		}
	}
	wantSoundLog(t, mirrorDatabase)
	awaitProjections(t, originDatabase, settledLog(t, originDatabase))
	if diff := cmp.Diff(digests(t, originDatabase), digests(t, mirrorDatabase)); diff != "" {
		t.Errorf("the tables (-origin +mirror)\n%s", diff)
	}
}

// digests returns the number of rows and a digest for each table of a projection, without positions in the log, which
// belong to a cluster.
func digests(t testing.TB, databaseURL string) map[string]string {
	t.Helper()
	connection, found := connect(t, databaseURL), map[string]string{}
	for _, p := range slices.Concat(projections.All(), projections.Inline()) {
		for _, table := range p.Tables() {
			found[table] = testdb.Value[string](t, connection, `SELECT count(*) || ' rows ' || coalesce(md5(string_agg(r, E'\n' ORDER BY r COLLATE "C")), '')
				FROM (SELECT (to_jsonb(t) - ARRAY(SELECT column_name::text FROM information_schema.columns
					WHERE table_name = $1 AND column_name ~ '(transaction_id|position)$'))::text AS r FROM `+table+` AS t) AS rows`, table)
		}
	}
	return found
}

// tilePaths are the addresses of the tiles with n hashes or entries.
func tilePaths(level string, n int64) (paths []string) {
	for tile := int64(0); tile*256 < n; tile++ {
		path := fmt.Sprintf("/ledger/tile/%s/", level)
		if thousands := tile / 1000; thousands > 0 { // enough for 256 million entries
			path += fmt.Sprintf("x%03d/", thousands)
		}
		path += fmt.Sprintf("%03d", tile%1000)
		if width := n - tile*256; width < 256 {
			path += fmt.Sprintf(".p/%d", width)
		}
		paths = append(paths, path)
	}
	return paths
}

// mirrorStatus is what /readyz says about a mirror.
type mirrorStatus struct {
	Origin        string
	Entries       int64
	OriginEntries int64
	Stopped       string
	StoppedAt     *int64
}

func mirrorState(t testing.TB, s *Service) mirrorStatus {
	t.Helper()
	var ready struct{ Mirror mirrorStatus }
	body := s.awaitReady(t)
	if err := json.Unmarshal([]byte(body), &ready); err != nil {
		t.Fatal(err)
	}
	return ready.Mirror
}

// everyEvent makes an event of every type at a service, before and after erasures, and returns a title with comments.
func everyEvent(t *testing.T, s *Service) (title string) {
	t.Helper()
	p, ada := s.NewPartner(t), s.NewStaff(t)
	title = Unique("Mirrored")
	planted := Comment(title).With(Fields{"uuid": plantedUUID, "username": plantedName, "content": plantedWords})
	p.Import(t, Key(), planted).WantPost(t, 201)
	s.MustCLI(t, "author", "link", p.Name, plantedUUID, plantedMember)
	testdb.Eventually(t, "the author is erased", func() bool { // older transactions of other tests refuse it
		return s.CLI(t, "author", "erase", p.Name, plantedUUID, "--reason", "asked").Code == 0
	})
	p.Import(t, Key(), planted).WantPost(t, 201) // what is written after the erasure stays
	var post string
	for n := range 300 {
		comment := Comment(title).With(Fields{"uuid": fmt.Sprint("member-", n%7), "content": "é – 世界"})
		post = p.Import(t, Key(), comment).WantPost(t, 201).PostID
	}
	p.Upsert(t, Key(), Fields{"novel": title, "synopsis": "A line.\nAnother \u2028 <one>."})
	for _, args := range [][]string{
		{"author", "link", p.Name, "member-1", "host-1"},
		{"author", "unlink", p.Name, "member-1", "--reason", "fine"},
		{"author", "block", p.Name, "member-2", "--reason", "spam"},
		{"author", "unblock", p.Name, "member-2", "--reason", "fine"},
		{"author", "hide-posts", p.Name, "member-3", "--reason", "spam"},
		{"author", "restore-posts", p.Name, "member-3", "--reason", "fine"},
		{"post", "hide", post, "--reason", "spam"},
		{"post", "restore", post, "--reason", "fine"},
		{"integration", "review", p.Name, "on"},
		{"integration", "review", p.Name, "off"},
		{"integration", "limit", p.Name, "--posts-per-minute", "70000"},
		{"integration", "capability", p.Name, "--disable", "novels"},
		{"integration", "disable", p.Name},
		{"integration", "enable", p.Name},
		{"integration", "rename", p.Name, Unique("renamed")},
		{"novel", "publish", title},
		{"novel", "edit", title, "--author", "Somebody"},
		{"novel", "reject", Unique("Barred"), "--reason", "no"},
		{"staff", "revoke", ada.KeyID, "--reason", "gone"},
	} {
		s.MustCLI(t, args...)
	}
	barred := Unique("Free again")
	s.MustCLI(t, "novel", "reject", barred, "--reason", "no")
	s.MustCLI(t, "novel", "approve", barred, "--reason", "fine")
	reviewed, rejected := s.NewPartner(t, Fields{"review": true}), Unique("Rejected")
	reviewed.Upsert(t, Key(), Fields{"novel": rejected})
	s.MustCLI(t, "novel", "approve", rejected, "--reason", "fine")
	s.MustCLI(t, "novel", "reject", rejected, "--reason", "no")
	var key struct{ KeyID string }
	s.runJSON(t, &key, "key", "issue", reviewed.Name)
	s.MustCLI(t, "key", "rotate", key.KeyID)
	s.MustCLI(t, "key", "revoke", key.KeyID, "--reason", "lost")
	connection := testdb.Connect(t, s.DatabaseURL)
	for _, e := range []struct {
		stream string
		id     uuid.UUID
		event  events.Event
	}{
		{events.IntegrationStream, uuid.MustParse(p.IntegrationID), events.ImportCompleted{}},
		{events.IntegrationStream, uuid.MustParse(p.IntegrationID), events.KeyExpiring{}},
		{events.ProjectionStream, events.ProjectionID("other"), events.ProjectionEventSkipped{Projection: "other"}},
	} {
		version := value[int](t, s.DatabaseURL, `SELECT count(*) FROM events WHERE stream_id = $1`, e.id) + 1
		if err := projections.Append(t.Context(), connection, events.Recorded{
			StreamType: e.stream, StreamID: e.id, StreamVersion: version, ID: Key(), Source: "tests", Event: e.event,
			Metadata: events.Metadata{Actor: "service"},
		}); err != nil {
			t.Fatal(err)
		}
	}
	made := testdb.Values[string](t, connection, `SELECT DISTINCT event_type FROM events`)
	for _, name := range events.Types() {
		if !slices.Contains(made, name) {
			t.Errorf("make an event %s", name)
		}
	}
	return title
}

// TestMirror: a mirror of a log with events of all types equals its origin, from the start of the stream and from a
// bundle, and goes on after a restart; its readers get what those of the origin get.
func TestMirror(t *testing.T) {
	t.Parallel()
	testdb.SkipShort(t)
	origin := Start(t, testdb.New(t), "--public-url", publicURL)
	title := everyEvent(t, origin)
	bundle := filepath.Join(t.TempDir(), "bundle")
	exportSigned(t, origin, bundle)
	flags := mirrorFlags(t, origin, origin.DatabaseURL)
	otto := origin.NewAuditor(t)
	p := origin.NewPartner(t)
	p.Import(t, Key(), Comment(title)).WantPost(t, 201)
	fromBundle := Start(t, testdb.New(t), append(flags, "--mirror-bundle", bundle)...)
	mirror := Start(t, testdb.New(t), append(flags, "--public-url", publicURL)...)
	for _, m := range []*Service{mirror, fromBundle} {
		wantMirrored(t, origin.URL, origin.DatabaseURL, m.URL, m.DatabaseURL)
	}
	if held := testdb.FindWords(t, mirror.DatabaseURL, plantedMember); len(held) > 0 {
		t.Errorf("what was erased before the mirror began is in %v", held)
	}
	mirror.Stop(t)
	for range 20 {
		p.Import(t, Key(), Comment(title)).WantPost(t, 201)
	}
	mirror = Start(t, mirror.DatabaseURL, append(flags, "--public-url", publicURL)...)
	wantSameReads(t, origin, mirror, title)
	if _, list := Get(t, fromBundle.URL+"/api/novels"); !strings.Contains(list, `"url":"`+fromBundle.URL+`/novels/`) {
		t.Errorf("without --public-url a mirror links to\n%s", list)
	}
	// The key of an auditor is in the mirrored history, and what they read is recorded where they read it.
	page := mirror.Send(t, Request{Path: "/api/events?type=author.erased.v1", Bearer: otto.APIKey})
	if page.Status != http.StatusOK || strings.Count(string(page.Body), "author.erased.v1") != 1 {
		t.Errorf("an auditor at the mirror: %d %s", page.Status, page.Body)
	}
	if reads := value[int](t, mirror.DatabaseURL, `SELECT count(*) FROM access_log WHERE name = $1`, otto.Name); reads != 1 {
		t.Errorf("%d reads are on record", reads)
	}
	state := mirrorState(t, mirror)
	if state.Origin != origin.URL || state.Stopped != "" || state.Entries != state.OriginEntries || state.Entries == 0 {
		t.Errorf("/readyz: %+v", state)
	}
	if said := mirror.metrics(t); !strings.Contains(said, fmt.Sprintf("novelgate_mirror_entries %d\n", state.Entries)) ||
		!strings.Contains(said, "novelgate_mirror_stopped 0\n") || metric(said, "novelgate_appends") != "0" {
		t.Error("/metrics does not show the mirror")
	}
	if status := ledgerStatus(t, mirror); *status.Origin != *ledgerStatus(t, origin).Origin {
		t.Errorf("the ledger of the mirror: %+v", status)
	}
	mirror.MustCLI(t, "events", "verify", "--key", flags[3])
}

// TestReadersOfAMirror runs tests of the interface with a service whose readers a mirror serves. NOVELGATE_TEST_MIRRORS
// does so with all tests.
func TestReadersOfAMirror(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(*testing.T){
		"analysts":      TestStoredPostTellsWhereItBelongs,
		"every route":   TestRouteLabelsAreDocumentedPaths,
		"unknown paths": TestUnknownPaths,
		"health":        TestHealthOnBothListeners,
	} {
		t.Run(name, test)
	}
}

// wantSameReads compares what an origin and a mirror with its public URL answer to readers and auditors: on every route
// with valid parameters, about a title with comments. Call it when nobody sends.
func wantSameReads(t *testing.T, origin, mirror *Service, title string) {
	t.Helper()
	slug := strings.ReplaceAll(strings.ToLower(title), " ", "-")
	discussion := "/novels/" + slug + "/discussion"
	var novel struct{ NovelID string }
	origin.Send(t, Request{Path: "/api/novels/" + slug}).WantJSON(t, http.StatusOK, &novel)
	var newest struct{ Items []struct{ PostID string } }
	origin.Send(t, Request{Path: "/api" + discussion + "?sort=newest&limit=1"}).WantJSON(t, http.StatusOK, &newest)
	post := newest.Items[0].PostID
	past := "asOf=" + value[string](t, origin.DatabaseURL, `SELECT to_json(recorded_at AT TIME ZONE 'UTC') #>> '{}' || 'Z'
		FROM events WHERE event_type = 'post.imported.v1' ORDER BY transaction_id, position OFFSET 100 LIMIT 1`)
	paths := []string{
		"/novels?q=mirrored", "/api/novels?text=mirrored", "/api/novels?sort=newest", "/novels/none", discussion + "?" + past,
		discussion + "?post=" + post, "/api" + discussion + "?sort=newest", "/api" + discussion + "?" + past,
		"/api/novels/" + slug + "?" + past, "/api/events?type=post.imported.v1&after=100", "/api/events?limit=1000",
	}
	fill := strings.NewReplacer(
		"{slug}", slug, "{postId}", post, "{part}", fmt.Sprint(firstByte(t, novel.NovelID)), "{tile}", "entries/000",
		"/ledger/proof", "/ledger/proof?logIndex=7", "{logIndex}", "7", "{streamType}", "novel", "{streamId}", novel.NovelID,
	)
	for _, route := range Routes(t) {
		// What auditors read is recorded where they read it.
		if r := (Request{Method: route.Method, Path: route.Path}); r.forReaders() && r.Path != "/api/access-log" {
			paths = append(paths, fill.Replace(r.Path))
		}
	}
	auditor := origin.NewAuditor(t)
	wantMirrored(t, origin.URL, origin.DatabaseURL, mirror.URL, mirror.DatabaseURL)
	for _, path := range paths {
		r := Request{Path: path, Bearer: auditor.APIKey}
		var want, got Response
		testdb.Eventually(t, path+" is the same before and after", func() bool { // "just now" becomes "1 minute ago"
			want, got = lasting(origin.Send(t, r)), lasting(mirror.Send(t, r))
			return cmp.Equal(want, lasting(origin.Send(t, r)))
		})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-origin +mirror)\n%.3000s", path, diff)
		}
		if want.Status != http.StatusOK && path != "/novels/none" {
			t.Errorf("%s is %d", path, want.Status)
		}
	}
}

// changing is what differs from one answer to the next, or belongs to a database.
var changing = regexp.MustCompile(`"requestId":"[^"]*"|request <code>[^<]*|"(nextCursor|cursor|next)":"[^"]*"|` +
	`"entries":\d+,"startedAt":"[^"]*"|,"mirror":\{[^}]*\}`)

// lasting returns an answer without what is changing.
func lasting(r Response) Response {
	r.Header = r.Header.Clone()
	for _, name := range []string{"Content-Length", "Date", "X-Request-Id"} {
		r.Header.Del(name)
	}
	r.Body = changing.ReplaceAll(r.Body, nil)
	return r
}

// TestMirroredErasure: what an author wrote was mirrored before the origin erased it; the mirror erases it, too, and
// after a vacuum nothing is left. What they write later stays.
func TestMirroredErasure(t *testing.T) {
	t.Parallel()
	testdb.SkipShort(t)
	origin := Start(t, testdb.New(t))
	p := origin.NewPartner(t)
	title := Unique("Erased")
	planted := Comment(title).With(Fields{"uuid": plantedUUID, "username": plantedName, "content": plantedWords})
	mirror := startMirror(t, origin)
	behind := startMirror(t, origin, "--pause-projections") // which has the log only
	for range 30 {
		p.Import(t, Key(), planted).WantPost(t, 201)
	}
	p.Import(t, Key(), Comment(title).With(Fields{"content": neighboursWord})).WantPost(t, 201)
	origin.MustCLI(t, "author", "link", p.Name, plantedUUID, plantedMember)
	wantMirrored(t, origin.URL, origin.DatabaseURL, mirror.URL, mirror.DatabaseURL)
	personal := []string{plantedUUID, plantedName, plantedWords, plantedMember}
	if held := testdb.FindWords(t, mirror.DatabaseURL, personal...); len(held) < 4 {
		t.Fatalf("the search finds what is planted in %v only", held)
	}
	mirrored := func(s *Service) bool {
		return value[int](t, s.DatabaseURL, `SELECT count(*) FROM events`) == value[int](t, origin.DatabaseURL, `SELECT count(*) FROM events`)
	}
	testdb.Eventually(t, "the other mirror has the log", func() bool { return mirrored(behind) })
	testdb.Eventually(t, "the origin has erased the author", func() bool {
		return origin.CLI(t, "author", "erase", p.Name, plantedUUID, "--reason", "asked").Code == 0
	})
	for range 3 {
		p.Import(t, Key(), planted.With(Fields{"content": "Later"})).WantPost(t, 201)
	}
	wantMirrored(t, origin.URL, origin.DatabaseURL, mirror.URL, mirror.DatabaseURL)
	testdb.Eventually(t, "the other mirror has the log", func() bool { return mirrored(behind) })
	for _, s := range []*Service{mirror, behind} {
		compact(t, s.DatabaseURL)
		if held := testdb.FindWords(t, s.DatabaseURL, plantedWords, plantedMember); len(held) > 0 {
			t.Errorf("what was erased is still in %v", held)
		}
		if kept := value[int](t, s.DatabaseURL, `SELECT count(*) FROM events WHERE personal ->> 'uuid' = $1`, plantedUUID); kept != 3 {
			t.Errorf("%d comments of the author are left, want the 3 after the erasure", kept)
		}
		if kept := value[int](t, s.DatabaseURL, `SELECT count(*) FROM events WHERE personal ->> 'content' = $1`, neighboursWord); kept != 1 {
			t.Errorf("%d comments of the neighbour are left", kept)
		}
	}
	want := testdb.Values[string](t, connect(t, origin.DatabaseURL), loggedSQL)
	if diff := cmp.Diff(want, testdb.Values[string](t, connect(t, behind.DatabaseURL), loggedSQL)); diff != "" {
		t.Errorf("the log (-origin +mirror)\n%.3000s", diff)
	}
}
