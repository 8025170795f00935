package e2e_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"novelgate/internal/testdb"
)

// badCommand is a command that is refused.
type badCommand struct{ operation, key, body string }

// badCommands returns commands that are refused for their bodies or keys. title is that of a novel which the key
// "misused" upserted, rejected one that staff rejected.
func badCommands(title, rejected string) map[string]badCommand {
	good := `"uuid":"u","username":"n","novel":"` + title + `","content":`
	return map[string]badCommand{
		"missing field":      {"posts", Key(), `{"uuid":"u","novel":"` + title + `","content":"c"}`},
		"several fields":     {"posts", Key(), `{"uuid":"","username":"","novel":"` + title + `","content":" "}`},
		"HTML":               {"posts", Key(), `{` + good + `"<b>c</b>"}`},
		"number for text":    {"posts", Key(), `{` + good + `7}`},
		"duplicate member":   {"posts", Key(), `{` + good + `"c","content":"d"}`},
		"wrong case":         {"posts", Key(), `{` + good + `"c","Timestamp":"2020-01-01T00:00:00Z"}`},
		"invalid UTF-8":      {"posts", Key(), `{` + good + "\"c\xff\"}"},
		"lone surrogate":     {"posts", Key(), `{` + good + `"\ud800"}`},
		"NUL":                {"posts", Key(), `{` + good + `"\u0000"}`},
		"far future":         {"posts", Key(), `{` + good + `"c","timestamp":"2999-01-01T00:00:00Z"}`},
		"chapter":            {"posts", Key(), `{` + good + `"c","chapterNumber":-1}`},
		"array":              {"posts", Key(), `[]`},
		"null":               {"posts", Key(), `null`},
		"33 KB":              {"posts", Key(), `{` + good + `"` + strings.Repeat("c", 33_000) + `"}`},
		"rejected title":     {"posts", Key(), `{"uuid":"u","username":"n","novel":"` + rejected + `","content":"c"}`},
		"rejected novel":     {"novels", Key(), `{"novel":"` + rejected + `"}`},
		"private cover":      {"novels", Key(), `{"novel":"N","coverUrl":"https://10.0.0.1/c.png"}`},
		"key with a space":   {"posts", "a key", `{` + good + `"c"}`},
		"key too long":       {"novels", strings.Repeat("k", 256), `{"novel":"` + title + `"}`},
		"key with one quote": {"posts", `"k`, `{` + good + `"c"}`},
		"misused key":        {"novels", "misused", `{"novel":"` + Unique("Other") + `"}`},
	}
}

// TestImportRefusesALineAsTheLiveInterfaceDoes sends bad bodies and keys both ways.
func TestImportRefusesALineAsTheLiveInterfaceDoes(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	p := s.NewImporter(t)
	title, rejected := Unique("Good"), Unique("Rejected")
	p.Upsert(t, Key(), Fields{"novel": title}).WantNovel(t, 201)
	p.Upsert(t, Key(), Fields{"novel": rejected}).WantNovel(t, 201)
	p.Upsert(t, "misused", Fields{"novel": title}).WantNovel(t, 200)
	s.Moderate(t, "reject", rejected)
	cases := badCommands(title, rejected)
	var names []string
	var text strings.Builder
	for name, c := range cases {
		names = append(names, name)
		object := string(Fields{"k": c.key}.JSON(t))
		key := strings.TrimSuffix(strings.TrimPrefix(object, `{"k":`), "}") // as a JSON string
		fmt.Fprintf(&text, "{\"operation\":%q,\"idempotencyKey\":%s,\"body\":%s}\n", c.operation, key, c.body)
	}
	i := p.OpenImport(t)
	i.Put(t, text.String())
	ended := i.Finish(t)
	if ended.Failed != len(cases) {
		t.Errorf("import %+v, want %d failed", ended, len(cases))
	}
	results := i.Results(t, "&status=failed")
	for n, r := range results {
		c := cases[names[n]]
		var live Problem
		request := p.Request("/api/integrations/"+c.operation, c.key, []byte(c.body))
		response := s.Send(t, request)
		response.WantJSON(t, response.Status, &live)
		got := *r.Problem
		if got.RequestID != fmt.Sprintf("import/%s/%d", i.ImportID, r.Line) {
			t.Errorf("%s: request id %q", names[n], got.RequestID)
		}
		got.RequestID, live.RequestID = "", ""
		if live.Code == "invalid_idempotency_key" { // names the header
			live.Detail = strings.Replace(live.Detail, "The Idempotency-Key header", "The idempotencyKey", 1)
		}
		if live.Field == "timestamp" { // says when it was received
			got.Detail, live.Detail, got.Errors, live.Errors = "", "", nil, nil
		}
		if fmt.Sprint(got) != fmt.Sprint(live) {
			t.Errorf("%s:\nimport %+v\nlive   %+v", names[n], got, live)
		}
	}
	if failed := i.FailedLines(t); failed != text.String() {
		t.Errorf("the failed lines are not those that were sent\n%.300q\n%.300q", failed, text.String())
	}
}

// TestImportOfUnreadableLines: each has an outcome, and all other lines are stored.
func TestImportOfUnreadableLines(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewImporter(t)
	title := Unique("Mixed")
	line := func(key string) string { return strings.TrimSuffix(PostLine(t, key, Comment(title)), "\n") }
	lines := []string{
		"\ufeff" + line("bom"), line("crlf") + "\r", "", "not JSON", `{"operation":"posts"`, `[]`, `{"operation":"other"}`,
		`{"operation":"posts","idempotencyKey":"k"}`, `{"operation":"posts","idempotencyKey":7,"body":{}}`,
		`{"operation":"posts","body":{}}`, `{"Operation":"posts"}`, line("trailing") + "x", "\xff\xfe",
		`{"operation":"posts","idempotencyKey":"twice","idempotencyKey":"twice","body":{}}`,
		`{"operation":"posts","idempotencyKey":"long","body":{"content":"` + strings.Repeat("x", 70_000) + `"}}`,
		strings.Replace(line("ignored"), "{", `{"extra":{"a":1,"a":2},"erased":true,`, 1), line("last")[:60],
	}
	stored := map[int]string{1: "bom", 2: "crlf", 16: "ignored"}
	codes := map[int]string{
		8: "invalid_request", 9: "invalid_idempotency_key", 10: "invalid_idempotency_key", 15: "payload_too_large",
	}
	i := p.OpenImport(t)
	const first = 5 // parts of different lengths
	i.Put(t, strings.Join(lines[:first], "\n"))
	i.Put(t, strings.Join(lines[first:], "\n"))
	if i.Lines != len(lines) {
		t.Errorf("%d lines, want %d", i.Lines, len(lines))
	}
	ended := i.Finish(t)
	if ended.Created != len(stored) || ended.Failed != len(lines)-len(stored) {
		t.Errorf("import %+v", ended)
	}
	var failed strings.Builder
	for n, text := range lines {
		if _, ok := stored[n+1]; !ok && text != "" && codes[n+1] != "payload_too_large" { // which is not kept as a whole
			failed.WriteString(text + "\n")
		}
	}
	if diff := cmp.Diff(failed.String(), i.FailedLines(t)); diff != "" {
		t.Errorf("failed lines (-want +got)\n%s", diff)
	}
	for n, r := range i.Results(t, "") {
		if r.Line != n+1 {
			t.Errorf("outcome %d is of line %d", n, r.Line)
		}
		key, ok := stored[r.Line]
		switch want := codes[r.Line]; {
		case ok && (r.Status != "created" || r.IdempotencyKey != key):
			t.Errorf("line %d: %+v", r.Line, r)
		case !ok && r.Status != "failed":
			t.Errorf("line %d: %+v", r.Line, r)
		case want != "" && r.Problem.Code != want, !ok && want == "" && r.Problem.Code != "invalid_request":
			t.Errorf("line %d: %+v", r.Line, r.Problem)
		}
	}
}

func packed(t testing.TB, coding string, plain []byte) []byte {
	t.Helper()
	var buffer bytes.Buffer
	writer := testdb.Must(zstd.NewWriter(&buffer))(t)
	if coding == "gzip" {
		zipper := gzip.NewWriter(&buffer)
		_, _ = zipper.Write(plain)
		_ = zipper.Close()
		return buffer.Bytes()
	}
	return writer.EncodeAll(plain, nil)
}

// send sends text as a part in a content coding; "" for none.
func (i *BulkImport) send(t testing.TB, offset int, coding, text string) Response {
	t.Helper()
	r := i.Part(offset, text)
	r.Header = http.Header{"Expect": {"100-continue"}} // otherwise an early refusal is lost if the client reads it late
	if coding != "" {
		r.Body, r.Header = packed(t, coding, []byte(text)), http.Header{"Content-Encoding": {coding}}
	}
	return i.sendPart(t, r)
}

// TestPartsOfAnImport: parts come in order, packed or not. One that is sent again is recognised by its lines.
func TestPartsOfAnImport(t *testing.T) {
	t.Parallel()
	i := Shared(t).NewImporter(t).OpenImport(t)
	title := Unique("Parts")
	var first strings.Builder
	for n := range 2_500 {
		first.WriteString(PostLine(t, fmt.Sprint("a", n), Comment(title)))
	}
	second := PostLine(t, "b", Comment(title))
	expect := func(what string, r Response, next string) {
		t.Helper()
		if r.Status != http.StatusNoContent || r.Header.Get("Next-Offset") != next {
			t.Errorf("%s: %d, next offset %q, want %s\n%s", what, r.Status, r.Header.Get("Next-Offset"), next, r.Body)
		}
	}
	mismatch := func(what string, r Response, expected int) {
		t.Helper()
		var got struct{ ExpectedOffset *int }
		r.WantProblem(t, http.StatusConflict, "offset_mismatch")
		r.WantJSON(t, http.StatusConflict, &got)
		if got.ExpectedOffset == nil || *got.ExpectedOffset != expected {
			t.Errorf("%s: %s", what, r.Body)
		}
	}
	mismatch("a gap", i.send(t, 7, "", second), 0)
	expect("first part", i.send(t, 0, "gzip", first.String()), "2500")
	expect("the same, packed otherwise", i.send(t, 0, "zstd", first.String()), "2500")
	expect("second part", i.send(t, 2500, "zstd", second), "2501")
	expect("first part again", i.send(t, 0, "", first.String()), "2500")
	mismatch("another part", i.send(t, 0, "", second), 2501)
	mismatch("a piece of a part", i.send(t, 1000, "", second), 2501)
	i.Complete(t)
	i.send(t, 0, "", first.String()).WantProblem(t, http.StatusConflict, "import_closed")
	if ended := i.Finish(t); ended.Created != 2501 {
		t.Errorf("import %+v", ended)
	}
}

// TestPartsThatAreNotValid are refused; what came before the fault of a part is stored.
func TestPartsThatAreNotValid(t *testing.T) {
	t.Parallel()
	i := Shared(t).NewImporter(t).OpenImport(t)
	service := i.partner.Service
	empty, other := i.Part(0, "x"), i.Part(0, "x")
	empty.Path = strings.TrimSuffix(empty.Path, "0")
	other.ContentType = "application/json"
	service.Send(t, empty).WantInvalid(t, "offset")
	service.Send(t, i.Part(-1, "x")).WantInvalid(t, "offset")
	service.Send(t, other).WantProblem(t, http.StatusUnsupportedMediaType, "unsupported_media_type")
	i.send(t, 0, "br", "x").WantProblem(t, http.StatusUnsupportedMediaType, "unsupported_media_type")

	coded := func(coding string, body []byte) Response {
		r := i.Part(i.Show(t).Lines, "")
		r.Body, r.Header = body, http.Header{"Content-Encoding": {coding}}
		return i.sendPart(t, r)
	}
	var lines strings.Builder
	for n := range 8_000 {
		fmt.Fprintln(&lines, n)
	}
	whole := packed(t, "gzip", []byte(lines.String()))
	coded("gzip", []byte("plain")).WantProblem(t, http.StatusBadRequest, "invalid_request")
	coded("zstd", []byte("plain")).WantProblem(t, http.StatusBadRequest, "invalid_request")
	coded("gzip", whole[:len(whole)/2]).WantProblem(t, http.StatusBadRequest, "invalid_request")
	if stored := i.Show(t).Lines; stored == 0 || stored%1_000 > 0 {
		t.Errorf("%d lines of a part that was cut are stored, want some thousands", stored)
	}
	for _, coding := range []string{"", "gzip", "zstd"} {
		for _, text := range []string{strings.Repeat("\n", 10_001), strings.Repeat("x", 17<<20)} {
			i.send(t, i.Show(t).Lines, coding, text).WantProblem(t, http.StatusRequestEntityTooLarge, "payload_too_large")
		}
	}
	bomb := packed(t, "gzip", bytes.Repeat([]byte{'\n'}, 64<<20))
	if len(bomb) > 1<<20 {
		t.Fatal("not a bomb")
	}
	coded("gzip", bomb).WantProblem(t, http.StatusRequestEntityTooLarge, "payload_too_large")
}

// TestCompleteCountsLines: an import that lacks lines, as after a failover, must get them before it can be completed.
func TestCompleteCountsLines(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewImporter(t)
	title := Unique("Counted")
	i := p.OpenImport(t)
	i.Put(t, PostLine(t, "one", Comment(title)))
	refused := p.Service.Send(t, i.request(http.MethodPost, "/complete?lines=2"))
	refused.WantProblem(t, 409, "offset_mismatch")
	if !strings.Contains(string(refused.Body), `"expectedOffset":1`) {
		t.Errorf("%s", refused.Body)
	}
	i.Put(t, PostLine(t, "two", Comment(title)))
	p.Service.Send(t, i.request(http.MethodPost, "/complete?lines=-1")).WantInvalid(t, "lines")
	var completed BulkImport
	for range 2 {
		p.Service.Send(t, i.request(http.MethodPost, "/complete?lines=2")).WantJSON(t, http.StatusOK, &completed)
	}
	if completed.Lines != 2 {
		t.Errorf("%+v", completed)
	}
	p.Service.Send(t, i.request(http.MethodPost, "/complete?lines=3")).WantProblem(t, 409, "import_closed")
}

func TestImportsBelongToTheirIntegration(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	p, other, unable := s.NewImporter(t), s.NewImporter(t), s.NewPartner(t)
	i := p.OpenImport(t)
	i.Put(t, PostLine(t, "secret", Comment(Unique("Own"))))
	for _, r := range []Request{
		i.request(http.MethodGet, ""), i.request(http.MethodDelete, ""), i.Part(1, "x"),
		i.request(http.MethodPost, "/complete"), i.request(http.MethodGet, "/results"), i.request(http.MethodGet, "/failed"),
	} {
		r.Bearer = other.APIKey
		s.Send(t, r).WantProblem(t, http.StatusNotFound, "not_found")
		r.Bearer = unable.APIKey
		s.Send(t, r).WantProblem(t, http.StatusForbidden, "capability_disabled")
	}
	var page struct{ Items []BulkImport }
	other.Inquire(t, ImportsPath).WantJSON(t, http.StatusOK, &page)
	if len(page.Items) > 0 {
		t.Errorf("another integration sees %+v", page.Items)
	}
}

func TestImportIsOpenedOnce(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewImporter(t)
	open := func(key string) Response {
		return p.Service.Send(t, Request{Method: http.MethodPost, Path: ImportsPath, Bearer: p.APIKey, Key: key})
	}
	open("").WantProblem(t, http.StatusBadRequest, "invalid_idempotency_key")
	var first, again BulkImport
	open("one").WantJSON(t, http.StatusCreated, &first)
	response := open("one")
	response.WantJSON(t, http.StatusOK, &again)
	response.WantReplayed(t, true, false)
	if first.ImportID != again.ImportID {
		t.Errorf("%s and %s", first.ImportID, again.ImportID)
	}
	for n := range 19 {
		open(fmt.Sprint("more", n)).WantJSON(t, http.StatusCreated, &again)
	}
	open("too-many").WantProblem(t, http.StatusConflict, "conflict")
	seen := 0
	for cursor := ""; ; {
		var page struct {
			Items      []BulkImport
			NextCursor *string
		}
		p.Inquire(t, ImportsPath+"?state=open&limit=6"+cursor).WantJSON(t, http.StatusOK, &page)
		seen += len(page.Items)
		if page.NextCursor == nil {
			break
		}
		cursor = "&cursor=" + *page.NextCursor
	}
	if seen != 20 {
		t.Errorf("%d imports are listed, want 20", seen)
	}
}

// TestSearchForOutcomesIsBounded: a page ends after a number of chunks, even if it is empty.
func TestSearchForOutcomesIsBounded(t *testing.T) {
	t.Parallel()
	testdb.SkipShort(t)
	p := Shared(t).NewImporter(t)
	const chunks = 230
	i := p.OpenImport(t)
	for n := range chunks {
		line := "bad\n"
		if n == chunks-1 {
			line = PostLine(t, "good", Comment(Unique("Last")))
		}
		i.Put(t, line)
	}
	i.Finish(t)
	first := i.read(t, "/results?status=created")
	if next := first.Header.Get("Next-After"); len(first.Body) > 0 || next != "200" {
		t.Errorf("the first page ends at %q with %s", next, first.Body)
	}
	if found := i.Results(t, "&status=created"); len(found) != 1 || found[0].Line != chunks {
		t.Errorf("found %+v", found)
	}
}
