package bulk_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"novelgate/commands/committer"
	"novelgate/internal/testdb"
)

// TestUnreadableLines: each has an outcome, and all other lines are executed.
func TestUnreadableLines(t *testing.T) {
	t.Parallel()
	line := func(key string) string { return strings.TrimSuffix(comment(key, "", "c"), "\n") }
	long := strings.Repeat("x", 70_000)
	want := []struct{ line, code, key, operation string }{
		{"\ufeff" + line("bom"), "201", "bom", "posts"},
		{line("crlf") + "\r", "201", "crlf", "posts"},
		{"", "", "", ""},
		{" \t", "", "", ""},
		{"not JSON", "invalid_request", "", ""},
		{`{"operation":"posts"`, "invalid_request", "", ""},
		{`[]`, "invalid_request", "", ""},
		{`{"operation":"other","idempotencyKey":"k"}`, "invalid_request", "k", ""},
		{`{"operation":"posts","idempotencyKey":"k"}`, "invalid_request", "k", "posts"},
		{`{"operation":"posts","idempotencyKey":7,"body":{}}`, "invalid_idempotency_key", "", "posts"},
		{`{"operation":"posts","idempotencyKey":"a key","body":{}}`, "invalid_idempotency_key", "", "posts"},
		{`{"operation":"posts","body":{}}`, "invalid_idempotency_key", "", "posts"},
		{`{"Operation":"posts"}`, "invalid_request", "", ""},
		{line("trailing") + "x", "invalid_request", "", ""},
		{"\xff\xfe", "invalid_request", "", ""},
		{`{"operation":"posts","idempotencyKey":"twice","idempotencyKey":"twice","body":{}}`, "invalid_request", "", ""},
		{`{"operation":"posts","idempotencyKey":"33 KB","body":{"content":"` + long[:33_000] + `"}}`, "payload_too_large", "", "posts"},
		{`{"operation":"posts","idempotencyKey":"long","body":{"content":"` + long + `"}}`, "payload_too_large", "", ""},
		{line("utf-8") + "\n" + strings.Replace(line("bad"), `"c"`, "\"\xff\"", 1), "201", "utf-8", "posts"},
		{"", "invalid_request", "bad", "posts"}, // the second one of the line above
		{strings.Replace(line(`"quoted"`), "{", `{"extra":{"a":1,"a":2},`, 1), "201", "quoted", "posts"},
		{line("last")[:60], "invalid_request", "", ""},
	}
	var lines []string
	for _, w := range want {
		if w.key != "bad" {
			lines = append(lines, w.line)
		}
	}
	f := setup(t)
	outcomes := f.send(t, strings.Join(lines, "\n"))
	for i, w := range want {
		if w.code == "" {
			continue
		}
		o := outcomes[0]
		outcomes = outcomes[1:]
		if o.Line != i+1 || o.code() != w.code || o.IdempotencyKey != w.key || o.Operation != w.operation {
			t.Errorf("%.80q: %+v %+v", w.line, o, o.Problem)
		}
		if strings.Contains(w.line, "other") && !strings.Contains(o.Problem.Detail, `must be novels, posts, edits or withdrawals, got "other"`) {
			t.Errorf("%q: %s", w.line, o.Problem.Detail)
		}
	}
	if len(outcomes) > 0 {
		t.Errorf("more outcomes: %+v", outcomes)
	}
}

// TestCapabilitiesOfLines: a line needs the capability for its operation.
func TestCapabilitiesOfLines(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.integration.CanCreateNovels = false
	lines := comment("a", "", "c") + upsert("b", "N", "")
	if got := codes(f.send(t, lines)); !slices.Equal(got, []string{"novel_not_found", "capability_disabled"}) {
		t.Errorf("without novels: %q", got)
	}
	f.integration.CanCreateNovels, f.integration.CanPost = true, false
	if got := codes(f.send(t, lines)); !slices.Equal(got, []string{"capability_disabled", "201"}) {
		t.Errorf("without posts: %q", got)
	}
}

func pack(t testing.TB, text string) []byte {
	t.Helper()
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return packed.Bytes()
}

// TestRefusedRequests: a request that is refused as a whole executes no line.
func TestRefusedRequests(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.submit = func(context.Context, *committer.Command) error { t.Error("a line is executed"); return nil }
	line := comment("k", "", "c")
	packed := pack(t, line)
	const gz = "Content-Encoding"
	for name, tc := range map[string]struct {
		body   string
		header []string
		status int
	}{
		"too many lines":        {strings.Repeat(line, 10_001), nil, 413},
		"too many bytes":        {strings.Repeat(line+strings.Repeat(" ", 60_000), 280), nil, 413},
		"too many bytes packed": {string(pack(t, strings.Repeat("\n", 16<<20+1))), []string{gz, "gzip"}, 413},
		"no gzip":               {line, []string{gz, "gzip"}, 400},
		"broken gzip":           {string(packed[:20]) + "x" + string(packed[21:]), []string{gz, "gzip"}, 400},
		"half gzip":             {string(packed[:len(packed)/2]), []string{gz, "gzip"}, 400},
		"nothing packed":        {"", []string{gz, "gzip"}, 400},
		"unknown coding":        {line, []string{gz, "zstd"}, 415},
		"packed twice":          {line, []string{gz, "gzip, gzip"}, 415},
		"JSON":                  {line, []string{"Content-Type", "application/json"}, 415},
	} {
		response := f.post(t.Context(), t, strings.NewReader(tc.body), tc.header...)
		text := testdb.Must(io.ReadAll(response.body))(t)
		if response.status != tc.status || response.header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d %s, want %d", name, response.status, text, tc.status)
		}
		if name == "unknown coding" && !strings.Contains(string(text), `got \"zstd\"`) {
			t.Errorf("the coding has no name in %s", text)
		}
	}
	f.integration.CanImport = false
	if status := f.post(t.Context(), t, strings.NewReader(line)).status; status != http.StatusForbidden {
		t.Errorf("without the capability: %d", status)
	}
}

func TestPackedRequest(t *testing.T) {
	t.Parallel()
	f := setup(t)
	got := codes(f.send(t, string(pack(t, comment("k", "", "c"))), "Content-Encoding", "GZIP"))
	if !slices.Equal(got, []string{"201"}) {
		t.Errorf("packed: %q", got)
	}
	if got := f.send(t, ""); len(got) > 0 {
		t.Errorf("no lines: %q", codes(got))
	}
}

// TestConcurrentRequests: an integration has one request at a time, and all together have the memory of two of the
// largest ones.
func TestConcurrentRequests(t *testing.T) {
	t.Parallel()
	f := setup(t)
	var bodies []*io.PipeWriter
	answered := make(chan int)
	begin := func() *io.PipeWriter {
		body, writer := io.Pipe()
		go func() { answered <- f.post(t.Context(), t, body).status }()
		return writer
	}
	for range 2 {
		f.set(func() { f.integration.IntegrationID = uuid.New() })
		writer := begin()
		testdb.Eventually(t, "the service reads the body", func() bool {
			select {
			case <-answered: // refused, because one of the requests below came first
				_ = writer.Close() // never fails
				writer = begin()
			default:
			}
			next := f.post(t.Context(), t, strings.NewReader(""))
			return next.status == http.StatusTooManyRequests && next.header.Get("Retry-After") == "1"
		})
		bodies = append(bodies, writer)
	}
	f.set(func() { f.integration.IntegrationID = uuid.New() })
	if next := f.post(t.Context(), t, strings.NewReader("")); next.status != http.StatusServiceUnavailable {
		t.Errorf("a third request: %d", next.status)
	}
	for _, writer := range bodies {
		_ = writer.Close() // never fails
		if status := <-answered; status != http.StatusOK {
			t.Errorf("a request: %d", status)
		}
	}
	if got := f.send(t, ""); len(got) > 0 {
		t.Errorf("%+v", got)
	}
}
