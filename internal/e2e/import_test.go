package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestImportStoresLinesAsTheLiveInterface(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewImporter(t)
	title := Unique("Bulk")
	i := p.OpenImport(t)
	i.Put(t, NovelLine(t, "novel", Fields{"novel": title, "author": "Ada"})+
		PostLine(t, "first", Comment(title))+PostLine(t, "second", Comment(title).With(Fields{"parent_uuid": "first"})))
	i.Put(t, PostLine(t, "first", Comment(title)))
	ended := i.Finish(t)
	want := BulkImport{ImportID: i.ImportID, State: "completed", Lines: 4, Created: 3, Replayed: 1}
	if diff := cmp.Diff(want, ended, cmpopts.IgnoreUnexported(want)); diff != "" {
		t.Errorf("import (-want +got)\n%s", diff)
	}
	results := i.Results(t, "")
	if len(results) != 4 {
		t.Fatalf("results: %+v", results)
	}
	live := p.Import(t, "second", Comment(title).With(Fields{"parent_uuid": "first"})).WantPost(t, 200)
	if results[2].PostID != live.PostID || results[2].ThreadID != live.ThreadID || results[2].URL != live.URL ||
		results[2].ParentPostID != results[1].PostID {
		t.Errorf("line 3 is %+v, its replay %+v", results[2], live)
	}
	if novel := p.Upsert(t, "novel", Fields{"novel": title}).WantNovel(t, 200); novel.NovelID != results[0].NovelID {
		t.Errorf("line 1 is %+v, its replay %+v", results[0], novel)
	}
}

// thread returns lines with comments in random order, of which two in three answer another one, as the map says. Each
// ten thousand of them are about a novel of their own.
func thread(t testing.TB, title string, n int) (lines []string, parents map[string]string) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	parents = map[string]string{}
	novels := 1 + n/10_000
	for k := range n {
		key, fields := fmt.Sprintf("c%d", k), Comment(fmt.Sprintf("%s, %d", title, k%novels))
		fields["uuid"] = fmt.Sprintf("member-%d", k%997)
		if earlier := k / novels; earlier > 0 && random.IntN(3) > 0 {
			parents[key] = fmt.Sprintf("c%d", k%novels+novels*random.IntN(earlier))
			fields["parent_uuid"] = parents[key]
		}
		lines = append(lines, PostLine(t, key, fields))
	}
	random.Shuffle(n, func(a, b int) { lines[a], lines[b] = lines[b], lines[a] })
	return lines, parents
}

// spoil returns lines among which one in a hundred of the given ones has a byte order mark, ends with CRLF, or comes
// after a line that fails. The last line has no end. wants has the status of each line.
func spoil(t testing.TB, lines []string) (spoiled, wants []string) {
	t.Helper()
	bad := []string{
		PostLine(t, "33-kb", Comment("Bad").With(Fields{"content": strings.Repeat("x", 33_000)})),
		strings.Replace(PostLine(t, "utf-8", Comment("Bad")), "A comment.", "A \xff.", 1),
		strings.Replace(PostLine(t, "twice", Comment("Bad")), `"username"`, `"novel":"Bad","username"`, 1),
		`{"operation":"posts","idempotencyKey":"a","idempotencyKey":"b","body":{}}` + "\n",
		"\n", PostLine(t, "cut", Comment("Bad"))[:60] + "\n",
	}
	for k, line := range lines {
		if k%100 == 99 {
			switch kind := k / 100 % (len(bad) + 2); kind {
			case len(bad):
				line = "\ufeff" + line
			case len(bad) + 1:
				line = strings.TrimSuffix(line, "\n") + "\r\n"
			default:
				spoiled, wants = append(spoiled, bad[kind]), append(wants, "failed")
			}
		}
		spoiled, wants = append(spoiled, line), append(wants, "created")
	}
	last := len(spoiled) - 1
	spoiled[last] = strings.TrimSuffix(spoiled[last], "\n")
	return spoiled, wants
}
