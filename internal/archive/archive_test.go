package archive_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"novelgate/client"
	"novelgate/internal/archive"
)

var now = time.Date(2026, time.January, 31, 12, 0, 0, 0, time.UTC)

var csv = archive.Options{Operation: client.OperationPosts, Encoding: "utf-8"}

// read reads one file.
func read(t testing.TB, name, text string, options archive.Options) (*archive.Archive, error) {
	t.Helper()
	t.Chdir(t.TempDir()) // so that names in texts are short
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := archive.Read(t.Context(), []string{name}, options, now, func(int64, int64) {})
	if err == nil {
		t.Cleanup(a.Close)
	}
	return a, err
}

// mustRead reads one file.
func mustRead(t testing.TB, name, text string, options archive.Options) *archive.Archive {
	t.Helper()
	a, err := read(t, name, text, options)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// remarks returns remarks as text.
func remarks(of archive.Remarks) (all []string) {
	for _, kind := range of {
		for _, r := range kind.Remarks {
			all = append(all, fmt.Sprintf("%s:%d %s %s %s", r.File, r.Line, kind.Code, kind.Field, r.Detail))
		}
	}
	return all
}

// keys returns the keys of the lines to send, in their order.
func keys(t testing.TB, a *archive.Archive) (sent []string) {
	t.Helper()
	for _, i := range a.Order() {
		line, err := a.Line(i)
		if err != nil {
			t.Fatal(err)
		}
		sent = append(sent, line.Key)
	}
	return sent
}

const heading = "key,uuid,username,novel,content"

// TestRows: the same row in every form that programs export.
func TestRows(t *testing.T) {
	want := []string{
		`posts 1 {"chapterNumber":1.5,"content":"two\nlines, a comma; \"quotes\"","novel":"Café","username":"n","uuid":"u"}`,
		`posts 2 {"content":"c","novel":"Café","parent_uuid":"1","username":"n","uuid":"u"}`,
	}
	const text = "key,uuid,username,novel,content,chapterNumber,parent_uuid,extra\n" +
		"1,u,n,Café,\"two\nlines, a comma; \"\"quotes\"\"\",1.5,,x\n2,u,n,Café,c,,1,\n"
	replaced := func(pairs ...string) string { return strings.NewReplacer(pairs...).Replace(text) }
	for name, tc := range map[string]struct {
		text   string
		change func(*archive.Options)
	}{
		"comma":     {text, nil},
		"semicolon": {strings.ReplaceAll(replaced("lines, a comma; ", "#"), ",", ";"), nil},
		"tab":       {strings.ReplaceAll(replaced("lines, a comma; ", "#"), ",", "\t"), nil},
		"another delimiter": {
			strings.ReplaceAll(replaced("lines, a comma; ", "#"), ",", "|"), func(o *archive.Options) { o.Delimiter = "|" },
		},
		"byte order mark":   {"\ufeff" + text, nil},
		"a mark wins":       {"\ufeff" + text, func(o *archive.Options) { o.Encoding = "windows-1252" }},
		"a mark and quotes": {"\ufeff" + replaced("key,", `"key",`), nil},
		"a code page":       {replaced("é", "\xe9"), func(o *archive.Options) { o.Encoding = "Windows-1252" }},
		"its short name":    {replaced("é", "\xe9"), func(o *archive.Options) { o.Encoding = "CP1252" }},
		"of DOS":            {replaced("é", "\x82"), func(o *archive.Options) { o.Encoding = "cp850" }},
		"capitals":          {replaced("key", "KEY", "chapterNumber", "ChapterNumber", "parent_uuid", " Parent_UUID "), nil},
		"CRLF":              {strings.ReplaceAll(text, "\n", "\r\n"), nil},
		"empty rows":        {replaced("x\n", "x\n\n,,,,,,,\n") + ",,,,,,,\n,,,,,,,\n,\n", nil},
		"more empty cells":  {replaced("x\n", "x,,,\n"), nil},
		"no last end":       {strings.TrimSuffix(text, "\n"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			options := csv
			if tc.change != nil {
				tc.change(&options)
			}
			a := mustRead(t, "rows.csv", tc.text, options)
			var got []string
			for _, i := range a.Order() {
				line, err := a.Line(i)
				if err != nil {
					t.Fatal(err)
				}
				body, _ := json.Marshal(line.Body)
				got = append(got, fmt.Sprintf("%s %s %s", line.Operation, line.Key, body))
			}
			want := slices.Clone(want)
			if strings.Contains(tc.text, "#") {
				want[0] = strings.Replace(want[0], "lines, a comma; ", "#", 1)
			}
			if diff := cmp.Diff(want, got); diff != "" || len(a.Problems) > 0 {
				t.Errorf("%q (-want +got)\n%s", remarks(a.Problems), diff)
			}
		})
	}
}

// TestFilesAreRefused as a whole, with a sentence that says where and what to do.
func TestFilesAreRefused(t *testing.T) {
	row := "\n1,u,n,T,c\n"
	for name, tc := range map[string]struct {
		text, want string
		change     func(*archive.Options)
	}{
		"not UTF-8": {
			heading + row + "2,u,n,Caf\xe9,c\n",
			`rows.csv: line 3, column 7: "Caf\xe9" is not UTF-8: save the file as UTF-8, or say what it is, as with --encoding windows-1252`,
			nil,
		},
		"a heading that is not": {"key,\xe9\n1,2\n", "rows.csv: line 1, column 2: ", nil},
		"UTF-16":                {"\xff\xfek\x00,\x00\n\x00", "is not UTF-8", nil},
		"not of the code page":  {heading + row + "2,u,n,\x98,c\n", `is not text in Windows 1253`, func(o *archive.Options) { o.Encoding = "windows-1253" }},
		"an unknown encoding":   {heading + row, `the encoding "latin" is unknown`, func(o *archive.Options) { o.Encoding = "latin" }},
		"a missing column": {
			"id,uuid,username,novel\n1,u,n,T\n",
			`rows.csv: no column is key, nor content: name the columns in the first row, which is ["id" "uuid" "username" "novel"]`,
			nil,
		},
		"empty":           {"", "rows.csv: has no lines", nil},
		"only empty rows": {"\n\n", "rows.csv: has no lines", nil},
		"no rows":         {heading + "\n,,,,\n", "rows.csv has no lines", nil},
		"no lines":        {"\n \n", "lines.ndjson has no lines", nil},
		"two columns":     {heading + ",CONTENT" + row, `the columns "content" and "CONTENT" are both the member "content"`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			options, file := csv, "rows.csv"
			if tc.change != nil {
				tc.change(&options)
			}
			if name == "no lines" {
				file = "lines.ndjson"
			}
			if _, err := read(t, file, tc.text, options); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
}

// TestOneBadRow fails alone, with its place.
func TestOneBadRow(t *testing.T) {
	for name, tc := range map[string]struct{ row, want string }{
		"too short":       {"2,u,n,T", "invalid_request  The row has 4 cells, but the heading has 5."},
		"too long":        {"2,u,n,T,c,d", "invalid_request  The row has 6 cells, but the heading has 5."},
		"a quote inside":  {`2,u,n,T,5" disk`, `invalid_request  The row up to line 5 is not valid CSV: bare " in non-quoted-field.`},
		"quotes that end": {`2,u,n,T,"5" disk`, `invalid_request  The row up to line 5 is not valid CSV: extraneous or missing " in quoted-field.`},
		"no content":      {"2,u,n,T,", "invalid_request content content: is required."},
		"a key with space": {
			"2 3,u,n,T,c",
			"invalid_idempotency_key  The idempotencyKey must be visible ASCII (0x21 to 0x7E), without spaces.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := mustRead(t, "rows.csv", heading+"\n1,u,n,T,\"two\nlines\"\n\n"+tc.row+"\n3,u,n,T,c\n", csv)
			if diff := cmp.Diff([]string{"rows.csv:5 " + tc.want}, remarks(a.Problems)); diff != "" {
				t.Errorf("problems (-want +got)\n%s", diff)
			}
			if diff := cmp.Diff([]string{"1", "3"}, keys(t, a)); diff != "" {
				t.Errorf("other rows (-want +got)\n%s", diff)
			}
		})
	}
}

func post(key, content string, more ...string) string {
	return fmt.Sprintf(`{"operation":"posts","idempotencyKey":%q,"body":{"uuid":"u","username":"n","novel":"T","content":%q%s}}`,
		key, content, strings.Join(more, "")) + "\n"
}

func parent(key string) string { return fmt.Sprintf(`,"parent_uuid":%q`, key) }

func edit(key, of string) string {
	return fmt.Sprintf(`{"operation":"edits","idempotencyKey":%q,"post":%q,"body":{"content":"c"}}`, key, of) + "\n"
}

func novel(key, title, more string) string {
	return fmt.Sprintf(`{"operation":"novels","idempotencyKey":%q,"body":{"novel":%q%s}}`, key, title, more) + "\n"
}

// TestKeysOfTwoCommands: a key is told when another line has it for another command, and not when the line repeats the
// first, in whatever spelling.
func TestKeysOfTwoCommands(t *testing.T) {
	a := mustRead(t, "lines.ndjson", post("1", "a")+post("1", "a")+post(`"1"`, "a", `,"parent_uuid":null`)+post("1", "b")+
		novel("1", "T", "")+novel("1", "t", "")+novel("1", "T", `,"language":"en"`)+post("1.23457E+17", "a")+post("1.23457E+17", "b"),
		csv)
	want := []string{
		"lines.ndjson:4 mismatch idempotencyKey The key 1 is that of lines.ndjson:1, which is another command.",
		"lines.ndjson:7 mismatch idempotencyKey The key 1 is that of lines.ndjson:5, which is another command.",
		"lines.ndjson:9 mismatch idempotencyKey The key 1.23457E+17 is that of lines.ndjson:8, which is another command " +
			"(a spreadsheet has shortened the number: format the column as text before you export it).",
	}
	if diff := cmp.Diff(want, remarks(a.Problems)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestWarnings about lines that are sent.
func TestWarnings(t *testing.T) {
	a := mustRead(t, "lines.ndjson", post("a", "c", parent("b"), `,"parentUuid":"x"`)+post("b", "c")+
		post("c", "c", parent("nowhere"))+post("d", "c", parent("d"))+post("e", "", parent(""))+post("f", "c", parent("e"))+
		novel("1", "Same", `,"size":1,"author":"A"`)+novel("2", "SAME", `,"author":"A"`)+novel("3", "same", "")+
		novel("4", " same ", `,"author":"B"`)+edit("5", "a")+edit("6", "nowhere"), csv)
	if diff := cmp.Diff([]string{"lines.ndjson:5 invalid_request content content: must have 1 to 20,000 characters, " +
		"got an empty or blank string."}, remarks(a.Problems)); diff != "" {
		t.Errorf("problems (-want +got)\n%s", diff)
	}
	a.WarnOfMissingParents()
	const missing = "parent_not_in_files parent_uuid The parent is in no file, or its line failed. Unless it was sent " +
		"before, the reply becomes top-level, which cannot be changed afterwards."
	want := []string{
		`lines.ndjson:1 unknown_member parentUuid "parentUuid" is no member and is ignored.`,
		`lines.ndjson:7 unknown_member size "size" is no member and is ignored.`,
		`lines.ndjson:10 another_author  "same" has another author in lines.ndjson:7: the last one counts.`,
		"lines.ndjson:3 " + missing, "lines.ndjson:4 " + missing, "lines.ndjson:6 " + missing,
		"lines.ndjson:12 comment_not_in_files post The comment is in no file, or its line failed. Unless it was sent " +
			"before, this line will fail.",
	}
	if diff := cmp.Diff(want, remarks(a.Warnings)); diff != "" {
		t.Errorf("warnings (-want +got)\n%s", diff)
	}
	rows := mustRead(t, "rows.csv", heading+",user,parent,,error\n1,u,n,T,c,a,b,c,d\n2,u,n,T,c,a,b,c,d\n", csv)
	want = []string{`rows.csv:1 ignored_columns user, parent ` +
		`These columns are ignored: user, parent.`}
	if diff := cmp.Diff(want, remarks(rows.Warnings)); diff != "" {
		t.Errorf("warnings about columns (-want +got)\n%s", diff)
	}
}

// TestOrder: upserts come first, in their order, and every parent before its replies, however it spells the key.
func TestOrder(t *testing.T) {
	a := mustRead(t, "lines.ndjson", post("c", "c", parent(`"b"`))+novel("2", "N", "")+post("b", "c", parent(" a "))+
		post("x", "c", parent("y"))+post("y", "c", parent("x"))+post("a", "c")+novel("1", "N", "")+
		post("z", "c", parent("")), csv)
	if diff := cmp.Diff([]string{"2", "1", "a", "b", "c", "y", "x", "z"}, keys(t, a)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestOrderOfAnyForest: each line is sent once, and after its parent.
func TestOrderOfAnyForest(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 40).Draw(rt, "lines")
		parents := make([]int, n)
		lines := make([]string, n)
		for i := range n {
			parents[i] = rapid.IntRange(-1, i-1).Draw(rt, "parent")
			lines[i] = post(fmt.Sprint(i), "c", parent(fmt.Sprint(parents[i])))
		}
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
		random.Shuffle(n, func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
		at := map[string]int{}
		for place, key := range keys(t, mustRead(t, "lines.ndjson", strings.Join(lines, ""), csv)) {
			at[key] = place
		}
		for i, p := range parents {
			if p >= 0 && at[fmt.Sprint(p)] > at[fmt.Sprint(i)] {
				rt.Errorf("%d comes before its parent %d", i, p)
			}
		}
		if len(at) != n {
			rt.Errorf("%d of %d lines are sent", len(at), n)
		}
	})
}

// TestReport has the lines that failed, as they were, and a corrected one can be imported.
func TestReport(t *testing.T) {
	report := func(a *archive.Archive) string {
		t.Helper()
		var buffer bytes.Buffer
		if err := a.WriteReport(&buffer); err != nil {
			t.Fatal(err)
		}
		return buffer.String()
	}
	a := mustRead(t, "lines.ndjson", "\ufeffx\n"+post("a", "c")+post("b", "")+post("d", "c"), csv)
	a.Fail(3, "novel_rejected", "", "Why.")
	if diff := cmp.Diff("\ufeffx\n"+post("b", "")+post("d", "c"), report(a)); diff != "" {
		t.Errorf("lines (-want +got)\n%s", diff)
	}

	options := csv
	options.Encoding = "windows-1252"
	a = mustRead(t, "rows.csv", "key;uuid;username;novel;content;x\n1;u;n;Caf\xe9;;\xe9\n2;u;n;T;c;\n3;u;n;T\n"+
		"4;u;n;T;a\" b;\n5;u;n;T;c;\n", options)
	a.Fail(4, "novel_rejected", "", "Caf\u00e9 \u2603; \"why\".")
	want := "key;uuid;username;novel;content;x;error\n1;u;n;Caf\xe9;;\xe9;content: is required.\n" +
		"3;u;n;T;;;The row has 4 cells, but the heading has 6.\n" +
		"4;u;n;T;\"a\"\" b\";;\"The row up to line 5 is not valid CSV: bare \"\" in non-quoted-field.\"\n" +
		"5;u;n;T;c;;\"Caf\xe9 &#9731;; \"\"why\"\".\"\n"
	first := report(a)
	if diff := cmp.Diff(want, first); diff != "" {
		t.Errorf("rows (-want +got)\n%q\n%s", first, diff)
	}
	a = mustRead(t, "rows.csv", first, options)
	want = "key;uuid;username;novel;content;x;error\n1;u;n;Caf\xe9;;\xe9;content: is required.\n" +
		"3;u;n;T;;;content: is required.\n"
	if diff := cmp.Diff(want, report(a)); diff != "" || len(a.Warnings) != 1 {
		t.Errorf("the report of a report (-want +got)\n%s\n%q", diff, remarks(a.Warnings))
	}

	a = mustRead(t, "rows.csv", "\ufeff"+heading+"\n1,u,n,T,\n", csv)
	if diff := cmp.Diff("\ufeff"+heading+",error\n1,u,n,T,,content: is required.\n", report(a)); diff != "" {
		t.Errorf("with a mark (-want +got)\n%s", diff)
	}
}

// TestOneReportOfOneFormat: files of another form need another report.
func TestOneReportOfOneFormat(t *testing.T) {
	dir := t.TempDir()
	files := map[string]string{
		"a.csv": heading + "\n1,u,n,T,c\n", "b.csv": heading + "\n2,u,n,T,c\n", "c.csv": heading + ",x\n3,u,n,T,c,\n",
		"a.ndjson": post("4", "c"), "b.ndjson": post("5", "c"),
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for names, ok := range map[string]bool{
		"a.csv b.csv": true, "a.ndjson b.ndjson": true, "a.csv c.csv": false, "a.ndjson a.csv": false,
	} {
		var paths []string
		for name := range strings.FieldsSeq(names) {
			paths = append(paths, filepath.Join(dir, name))
		}
		a, err := archive.Read(t.Context(), paths, csv, now, func(int64, int64) {})
		if err != nil {
			t.Fatal(err)
		}
		if err := a.CheckReport(); (err == nil) != ok {
			t.Errorf("%s: %v", names, err)
		}
		a.Close()
	}
}

// TestAFileThatChanges is told when the line is sent.
func TestAFileThatChanges(t *testing.T) {
	a := mustRead(t, "rows.csv", heading+"\n1,u,n,T,c\n", csv)
	if err := os.WriteFile("rows.csv", []byte("another, text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Line(0); err == nil || !strings.Contains(err.Error(), "rows.csv:2 has changed since it was checked") {
		t.Errorf("%v", err)
	}
}
