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
		if out.Code != 1 || !strings.Contains(out.Stderr, "line 2: uuid: is required") ||
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
}

// TestImportCommandChecks lines without a service.
func TestImportCommandChecks(t *testing.T) {
	t.Parallel()
	file := writeFile(t, "lines.ndjson", PostLine(t, "c", Comment("Title"))+PostLine(t, "a key", Comment("Title"))+
		NovelLine(t, "n", Fields{"novel": "N", "coverUrl": "http://x.example/"})+"x\n")
	report := filepath.Join(t.TempDir(), "failed.ndjson")
	out := RunCLI(t, "", "import", file, "--dry-run", "--report", report)
	failed, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	if out.Code != 1 || strings.Count(string(failed), "\n") != 3 ||
		!strings.Contains(out.Stderr, "line 2: The idempotencyKey must") ||
		!strings.Contains(out.Stderr, "line 3: coverUrl: ") || !strings.Contains(out.Stderr, "3 of 4 lines failed") {
		t.Errorf("exit code %d\n%s\n%s", out.Code, out.Stdout, out.Stderr)
	}
}

// TestImportCommandResumes kills the command during the upload: another one goes on with the import.
func TestImportCommandResumes(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewImporter(t)
	var text strings.Builder
	const n = 30_000
	title := Unique("Resumed")
	for k := range n {
		text.WriteString(PostLine(t, fmt.Sprint("k", k), Comment(title).With(Fields{"content": strings.Repeat("x", 500)})))
	}
	file := writeFile(t, "large.ndjson", text.String())
	pass := func(w http.ResponseWriter, r *http.Request, service http.Handler) { service.ServeHTTP(w, r) }
	var held atomic.Bool
	hold := func(_ http.ResponseWriter, r *http.Request, _ http.Handler) {
		_, _ = io.Copy(io.Discard, r.Body) // only then does the server notice that the command is killed
		held.Store(true)
		<-r.Context().Done()
	}
	address := p.Service.through(t, pass, pass, hold) // the import, its first part, its second part
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
