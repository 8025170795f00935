package history_test

import (
	"fmt"
	"strings"
	"testing"

	"novelgate/readapi/history"
)

// A page of large events is cut, says that there is more, and the next one goes on behind it.
func TestPageOfLargeEvents(t *testing.T) {
	t.Parallel()
	pool := open(t)
	const n, size, most = 400, 31_000, 1 << 20
	rows, want := make([]row, n), make([]string, n)
	for i := range rows {
		rows[i] = post(fmt.Sprint("large-", i))
		text := `{"content":"` + strings.Repeat("x", size) + `"}`
		rows[i].personal = &text
		want[i] = rows[i].id
	}
	store(t, pool, rows...)
	settle(t, pool)
	reader, err := history.NewReader(t.Context(), pool, history.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	horizon, err := reader.Horizon(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for after, more := (history.Cursor{}), true; more; {
		page, err := reader.Page(t.Context(), after, horizon, 1000)
		if err != nil {
			t.Fatal(err)
		}
		held := 0
		for i := range page.Events {
			got = append(got, page.Events[i].ID)
			held += len(page.Events[i].Personal)
		}
		if held > most {
			t.Errorf("a page of %d events holds %d bytes, at most %d are wanted", len(page.Events), held, most)
		}
		after, more = page.Next, page.More
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("%d events on the pages, or not in order; want %d", len(got), n)
	}
}
