package e2e_test

import (
	"fmt"
	"math/rand/v2"
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

// thread returns lines with comments of which each but the first of a thread answers another one.
func thread(t testing.TB, title string, n int) (lines []string, parents map[string]string) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	parents = map[string]string{}
	for k := range n {
		key, fields := fmt.Sprintf("c%d", k), Comment(title)
		if k > 0 && random.IntN(3) > 0 {
			parents[key] = fmt.Sprintf("c%d", random.IntN(k))
			fields["parent_uuid"] = parents[key]
		}
		lines = append(lines, PostLine(t, key, fields))
	}
	random.Shuffle(n, func(a, b int) { lines[a], lines[b] = lines[b], lines[a] })
	return lines, parents
}
