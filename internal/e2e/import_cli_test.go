package e2e_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-json-experiment/json"
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

// TestImportCommand imports files with failing lines and a report, and the same files again.
func TestImportCommand(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewImporter(t)
	title := Unique("Files")
	bad := `{"operation":"posts","idempotencyKey":"bad","body":{}}`
	first := writeFile(t, "a.ndjson", NovelLine(t, "n", Fields{"novel": title})+bad+"\n")
	second := writeFile(t, "b.ndjson", "\ufeff"+strings.ReplaceAll(PostLine(t, "c", Comment(title)), "\n", "\r\n"))
	report := filepath.Join(t.TempDir(), "failed.ndjson")
	for range 2 { // the second time continues the same import
		out := p.importFiles(t, first, second, "--report", report)
		problem := "failed: 1 × invalid_request, first " + first + ":2: uuid: is required"
		if out.Code != 1 || !strings.Contains(out.Stderr, problem) ||
			!strings.Contains(out.Stderr, "1 of 3 lines failed") || !strings.Contains(out.Stdout, "created         2") {
			t.Errorf("exit code %d\n%s\n%s", out.Code, out.Stdout, out.Stderr)
		}
		if got, err := os.ReadFile(report); err != nil || string(got) != bad+"\n" {
			t.Errorf("report %q, %v", got, err)
		}
	}
	out := p.importFiles(t, second, "--again", "--json")
	if out.Code != 0 || !strings.Contains(out.Stdout, `"replayed": 1`) {
		t.Errorf("exit code %d\n%s\n%s", out.Code, out.Stdout, out.Stderr)
	}
	if out := p.importFiles(t, first, "--report", first); out.Code != 1 {
		t.Errorf("the report replaces a file: %+v", out)
	}
}

func TestImportCommandReadsCSV(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewImporter(t)
	title := Unique("Rows")
	file := writeFile(t, "rows.csv", "\ufeffid,member,username,book,content,reply_to,chapterNumber,ignored\n"+
		"1,m,n,"+title+",\"two\nlines, a comma\",,1.5,x\n2,m,n,"+title+",reply,1,,\n")
	flags := []string{"--map", "id=key", "--map", "member=uuid", "--map", "book=novel", "--map", "reply_to=parent_uuid"}
	if out := p.importFiles(t, append(flags, file)...); out.Code != 0 {
		t.Fatalf("exit code %d\n%s\n%s", out.Code, out.Stdout, out.Stderr)
	}
	reply := p.Import(t, "2", Comment(title)).WantPost(t, 200)
	parent := p.Import(t, "1", Comment(title)).WantPost(t, 200)
	if reply.ParentPostID == nil || *reply.ParentPostID != parent.PostID {
		t.Errorf("reply %+v, parent %+v", reply, parent)
	}
	if out := p.importFiles(t, file, "--map", "nothing=key"); out.Code != 1 || !strings.Contains(out.Stderr, "no column") {
		t.Errorf("unknown column: %+v", out)
	}
	twice := RunCLI(t, "", "import", file, "--dry-run", "--map", "ignored=content")
	if twice.Code != 1 || !strings.Contains(twice.Stderr, `two columns are the member "content"`) {
		t.Errorf("two columns for one member: %+v", twice)
	}
}

// lineRemark is a problem or a warning that `novelgate import --json` lists.
type lineRemark struct {
	Line, FileLine            int
	File, Code, Field, Detail string
}

// checked is the answer of `novelgate import --json`.
type checked struct{ Problems, Warnings []lineRemark }

// TestImportCommandChecks lines without a service. It names each wrong line as an editor does, prints a summary, and
// warns about unknown members.
func TestImportCommandChecks(t *testing.T) {
	t.Parallel()
	wrong := NovelLine(t, "n", Fields{"novel": "N", "coverUrl": "http://x.example/"})
	lines := writeFile(t, "lines.ndjson", PostLine(t, "c", Comment("Title"))+"\n"+PostLine(t, "a key", Comment("Title"))+
		strings.Repeat(wrong, 30)+"x\n"+
		PostLine(t, "r", Comment("Title").With(Fields{"parentUuid": "c"}))+NovelLine(t, "m", Fields{"novel": "M", "size": 1}))
	rows := writeFile(t, "rows.csv", "key,uuid,username,novel,content,parent\n"+
		"1,u,n,T,\"two\nlines\",\n\n2,u,n,T,,0\n3,u,n,T,c,1\n")
	report := filepath.Join(t.TempDir(), "failed.ndjson")
	out := RunCLI(t, "", "import", lines, rows, "--dry-run", "--report", report)
	for _, text := range []string{
		"failed: 1 × invalid_idempotency_key, first " + lines + ":3: The idempotencyKey must",
		"failed: 30 × invalid_request, first " + lines + ":4: coverUrl: ",
		"failed: 1 × invalid_request, first " + lines + ":34: The line is not valid JSON",
		"failed: 1 × invalid_request, first " + rows + ":5: content: is required.",
		"warning: 1 × unknown_member, first " + lines + `:35: "parentUuid" is no member and is ignored: is it "parent_uuid"?`,
		"warning: 1 × unknown_member, first " + lines + `:36: "size" is no member and is ignored.`,
		"warning: 1 × unknown_member, first " + rows + `:6: "parent" is no member`,
		"33 of 38 lines failed",
	} {
		if !strings.Contains(out.Stderr, text) {
			t.Errorf("there is no %q in\n%s", text, out.Stderr)
		}
	}
	failed, err := os.ReadFile(report)
	if err != nil || out.Code != 1 || strings.Count(string(failed), "\n") != 33 {
		t.Errorf("exit code %d, report %q, %v", out.Code, failed, err)
	}
	var all checked
	decodeOutput(t, RunCLI(t, "", "import", lines, rows, "--dry-run", "--json"), &all)
	if len(all.Problems) != 33 || len(all.Warnings) != 3 {
		t.Errorf("%d problems, %d warnings", len(all.Problems), len(all.Warnings))
	}
	want := lineRemark{38, 6, rows, "unknown_member", "parent", `"parent" is no member and is ignored: is it "parent_uuid"?`}
	if diff := cmp.Diff(want, all.Warnings[2]); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func decodeOutput(t testing.TB, out Output, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(out.Stdout), into, json.MatchCaseInsensitiveNames(true)); err != nil {
		t.Fatalf("%v: %+v", err, out)
	}
}

// TestImportCommandNamesLines of a sent import, with failures and a reply without its parent, and sends the mended
// report, which has an empty line.
func TestImportCommandNamesLines(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewImporter(t)
	title := Unique("Named")
	rows := writeFile(t, "rows.csv", "key,uuid,username,novel,content,parent_uuid\n"+
		"1,u,n,"+title+",\"two\nlines\",\n2,u,n,"+title+",reply,nothing\n3,u,n,"+title+",,\n")
	report := filepath.Join(t.TempDir(), "failed.ndjson")
	var all checked
	decodeOutput(t, p.importFiles(t, rows, "--json", "--report", report), &all)
	want := checked{
		Problems: []lineRemark{{3, 5, rows, "invalid_request", "content", "content: is required."}},
		Warnings: []lineRemark{{2, 4, rows, "parent_not_found", "", "The parent was not found; the comment is top-level."}},
	}
	if diff := cmp.Diff(want, all); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	failed := testdb.Must(os.ReadFile(report))(t)
	mended := writeFile(t, "mended.ndjson", "\n"+strings.Replace(string(failed), `"body":{`, `"body":{"content":"c",`, 1)+" \n")
	if out := p.importFiles(t, mended); out.Code != 0 {
		t.Errorf("the mended report: %+v", out)
	}
}

// TestImportCommandResumes kills the command during the upload: another one goes on with the import.
func TestImportCommandResumes(t *testing.T) {
	t.Parallel()
	testdb.SkipShort(t)
	p := Shared(t).NewImporter(t)
	var text strings.Builder
	const n = 30_000
	title := Unique("Resumed")
	for k := range n {
		text.WriteString(PostLine(t, fmt.Sprint("k", k), Comment(title).With(Fields{"content": strings.Repeat("x", 500)})))
	}
	file := writeFile(t, "large.ndjson", text.String())
	var held atomic.Bool
	address := p.Service.behind(t, func(w http.ResponseWriter, r *http.Request, service http.Handler) {
		if offset := r.URL.Query().Get("offset"); offset == "" || offset == "0" {
			service.ServeHTTP(w, r)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body) // only then does the server notice that the command is killed
		held.Store(true)
		<-r.Context().Done()
	})
	killed := launch(t, "import", file, "--url", address, "--key", p.APIKey)
	testdb.Eventually(t, "the second part arrives", func() bool { return held.Load() })
	killed.kill()
	var all struct{ Items []BulkImport }
	p.Inquire(t, ImportsPath).WantJSON(t, http.StatusOK, &all)
	if len(all.Items) != 1 || all.Items[0].Lines == 0 || all.Items[0].Lines == n {
		t.Fatalf("imports after the kill: %+v", all.Items)
	}
	i := all.Items[0]
	out := p.importFiles(t, file, "--json")
	if out.Code != 0 || !strings.Contains(out.Stdout, i.ImportID) || !strings.Contains(out.Stdout, fmt.Sprintf(`"created": %d`, n)) {
		t.Errorf("exit code %d\n%s\n%s", out.Code, out.Stdout, out.Stderr)
	}
	for _, line := range []string{"uploaded: [0-9]+ of 30000 lines", "processed: [0-9]+ of 30000 lines"} {
		if !regexp.MustCompile("(?m)^" + line).MatchString(out.Stderr) {
			t.Errorf("there is no %q in the progress\n%s", line, out.Stderr)
		}
	}
	p.Inquire(t, ImportsPath).WantJSON(t, http.StatusOK, &all)
	if diff := cmp.Diff(1, len(all.Items)); diff != "" {
		t.Errorf("imports (-want +got)\n%s", diff)
	}
}
