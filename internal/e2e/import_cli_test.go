package e2e_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"novelgate/internal/testdb"
)

// importFiles runs `novelgate import`, which needs no database.
func (p *Partner) importFiles(t testing.TB, args ...string) Output {
	t.Helper()
	return RunCLI(t, "", append([]string{"import", "--url", p.Service.URL, "--key", p.APIKey}, args...)...)
}

func writeFile(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// importResult is the result of an import that --json prints.
type importResult struct {
	Lines, Created, Updated, Unchanged, Replayed, Failed, NotSent int

	Problems, Warnings []struct {
		Code, Field string
		Count       int
		Lines       []struct {
			File, Detail string
			Line         int
		}
	}
}

// told returns the problems and warnings as text.
func (i *importResult) told() (all []string) {
	for _, kind := range append(i.Problems, i.Warnings...) {
		for _, line := range kind.Lines {
			all = append(all, fmt.Sprintf("%s:%d %s: %s", filepath.Base(line.File), line.Line, kind.Code, line.Detail))
		}
	}
	return all
}

func decodeOutput(t testing.TB, out string, into *importResult) {
	t.Helper()
	if err := json.Unmarshal([]byte(out), into); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// TestImportCommand imports files, tells what became of each line, and the report of the lines that failed can be
// corrected and imported.
func TestImportCommand(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	p, title := s.NewImporter(t), Unique("Files")
	p.Import(t, "live", Comment(title)).WantPost(t, http.StatusCreated)
	reply := func(key, to string) Fields { return Comment(title).With(Fields{"parent_uuid": to, "content": key}) }
	lines := writeFile(t, "lines.ndjson", PostLine(t, "reply", reply("reply", "row-1"))+
		PostLine(t, "live", reply("another", ""))+PostLine(t, "lost", reply("lost", "nowhere"))+
		NovelLine(t, "n", Fields{"novel": title + " 2", "size": 1})+
		PostLine(t, "bad", Fields{"uuid": "u"}))
	rows := writeFile(t, "rows.csv", "KEY;UUID;Username;Novel;Content;shelf\nrow-1;u;n;"+title+";c;1\n;;;;;\n")
	report := filepath.Join(t.TempDir(), "failed.ndjson")
	if err := os.WriteFile(report, []byte("An older report."), 0o644); err != nil {
		t.Fatal(err)
	}
	out := p.importFiles(t, lines, rows, "--json")
	var got importResult
	decodeOutput(t, out.Stdout, &got)
	want := []string{
		"lines.ndjson:5 invalid_request: username: is required. novel: is required. content: is required.",
		"lines.ndjson:2 mismatch: The key was used before for another command, which stays in effect. " +
			"This line was not stored.",
		`lines.ndjson:4 unknown_member: "size" is no member and is ignored.`,
		"rows.csv:1 ignored_columns: These columns are ignored: shelf.",
		"lines.ndjson:3 parent_not_found: The parent was not found; the comment is top-level.",
	}
	if diff := cmp.Diff(want, got.told()); diff != "" || out.Code != 1 {
		t.Errorf("exit code %d (-want +got)\n%s", out.Code, diff)
	}
	if got.Lines != 6 || got.Created != 4 || got.Failed != 2 ||
		got.Replayed+got.Updated+got.Unchanged+got.NotSent != 0 {
		t.Errorf("%+v", got)
	}
	out = p.importFiles(t, lines, "--report", report)
	for _, text := range []string{
		"failed: 1 × mismatch, first " + lines + ":2: ", "warning: 1 × parent_not_found, first " + lines + ":3: ",
		"2 of 5 lines failed",
	} {
		if !strings.Contains(out.Stderr, text) {
			t.Errorf("there is no %q in\n%s", text, out.Stderr)
		}
	}
	if !strings.Contains(out.Stdout, "replayed   3\n") || !strings.Contains(out.Stdout, "failed     2\n") {
		t.Errorf("the second time:\n%s", out.Stdout)
	}
	info, err := os.Stat(report)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the report: %v, %v", info, err)
	}
	failed := string(testdb.Must(os.ReadFile(report))(t))
	mended := strings.NewReplacer(`"live"`, `"new"`, `{"uuid":"u"}`, string(Comment(title).JSON(t))).Replace(failed)
	out = p.importFiles(t, writeFile(t, "mended.ndjson", mended))
	if out.Code != 0 || !strings.Contains(out.Stdout, "created    2\n") {
		t.Errorf("the mended report: %+v", out)
	}
	if out := p.importFiles(t, lines, "--report", lines); out.Code != 1 || !strings.Contains(out.Stderr, "would replace") {
		t.Errorf("the report replaces a file: %+v", out)
	}
	p.APIKey += "x"
	out = p.importFiles(t, lines)
	if out.Code != 1 || !strings.Contains(out.Stderr, "unauthorized") || !strings.Contains(out.Stdout, "not sent   4\n") {
		t.Errorf("a wrong API key: %+v", out)
	}
}

// TestImportCommandChangesComments: files may hold edits and withdrawals, in front of their comments.
func TestImportCommandChangesComments(t *testing.T) {
	t.Parallel()
	p, title := Shared(t).NewImporter(t), Unique("Changed in files")
	change := func(operation, key, post string, body Fields) string {
		return string(Fields{"operation": operation, "idempotencyKey": key, "post": post, "body": body}.JSON(t)) + "\n"
	}
	lines := writeFile(t, "lines.ndjson", change("edits", "e", "a", Fields{"content": "Newer words."})+
		change("withdrawals", "w", "b", nil)+PostLine(t, "a", Comment(title))+PostLine(t, "b", Comment(title)))
	out := p.importFiles(t, lines, "--json")
	var got importResult
	decodeOutput(t, out.Stdout, &got)
	if out.Code != 0 || got.Created != 2 || got.Updated != 2 || len(got.told()) > 0 {
		t.Errorf("%+v", out)
	}
	a := p.Import(t, "a", Comment(title)).WantPost(t, http.StatusOK)
	page(t, a.URL, "Newer words.", "A comment.")
}

// TestImportCommandOutlastsTheService: the connection is cut and the service killed while the program imports comments
// in random order. Each line gets one outcome, and each comment is stored once, under its parent.
// NOVELGATE_TEST_IMPORT_LINES sets the number of comments.
func TestImportCommandOutlastsTheService(t *testing.T) {
	t.Parallel()
	testdb.SkipShort(t)
	n := scaled(t, "NOVELGATE_TEST_IMPORT_LINES", 3_000)
	databaseURL := testdb.New(t)
	s := Start(t, databaseURL)
	p := s.NewImporter(t)
	lines, want := make([]string, n), make([]string, n)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		body, to := Comment(fmt.Sprint("Outlasted ", i%7)).With(Fields{"content": fmt.Sprint("Text ", i)}), ""
		if i >= 7 && random.IntN(3) > 0 {
			to = fmt.Sprint("c", i%7+7*random.IntN(i/7))
			body["parent_uuid"] = to
		}
		lines[i], want[i] = PostLine(t, fmt.Sprint("c", i), body), fmt.Sprintf("c%d|%s|Text %d", i, to, i)
	}
	random.Shuffle(n, func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })

	var target atomic.Pointer[url.URL]
	target.Store(testdb.Must(url.Parse(s.URL))(t))
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target.Load()) }, FlushInterval: -1,
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	})
	defer proxy.Close()
	file := writeFile(t, "lines.ndjson", strings.Join(lines, ""))
	command := launch(t, "import", file, "--url", proxy.URL, "--key", p.APIKey, "--json")
	const rounds = 9
	for round := range rounds {
		testdb.Eventually(t, "lines are stored", func() bool {
			const stored = `SELECT count(*) FROM events WHERE event_type = 'post.imported.v1'`
			return value[int](t, databaseURL, stored) > round*n/rounds
		})
		if round%3 > 0 {
			proxy.CloseClientConnections()
			continue
		}
		s.kill()
		s = Start(t, databaseURL)
		target.Store(testdb.Must(url.Parse(s.URL))(t))
	}
	began := time.Now()
	if code := command.wait(t); code != 0 {
		t.Errorf("exit code %d\n%s", code, command.stderr)
	}
	t.Logf("the command ended %v after the last interruption", time.Since(began))
	var got importResult
	decodeOutput(t, command.stdout.String(), &got)
	if got.Lines != n || got.Created+got.Replayed != n || len(got.Problems)+len(got.Warnings) > 0 {
		t.Errorf("%+v", got)
	}
	const comments = `SELECT array_agg(concat_ws('|', c.event_id, coalesce(p.event_id, ''), c.personal->>'content')
		ORDER BY substr(c.event_id, 2)::int) FROM events AS c
		LEFT JOIN events AS p ON p.stream_id = (c.data->>'parentPostId')::uuid AND p.stream_version = 1
		WHERE c.event_type = 'post.imported.v1'`
	if diff := cmp.Diff(want, value[[]string](t, databaseURL, comments)); diff != "" {
		t.Errorf("comments (-sent +stored)\n%.2000s", diff)
	}
}
