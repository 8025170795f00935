package projections_test

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"

	"novelgate/events"
	"novelgate/internal/testdb"
	"novelgate/projections"
)

// TestWithdrawalsOfManyAuthors: for a batch of withdrawals, each author costs no more than their own other comments.
func TestWithdrawalsOfManyAuthors(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	const authors, each = 300, 4
	random := seeded(1)
	recorded := comments(random, "withdrawn", authors*each)
	withdrawn := make([]uuid.UUID, authors)
	for i := range recorded {
		e, ok := recorded[i].Event.(events.PostImported)
		if !ok {
			t.Fatalf("%T", recorded[i].Event)
		}
		e.ParentPostID, e.Comment.ExternalUUID = nil, fmt.Sprint("author ", i%authors)
		if recorded[i].Event = e; i < authors {
			withdrawn[i] = recorded[i].StreamID
		}
	}
	append1(t, pool, recorded...)
	testdb.NoError(t, projections.Posts{}.Apply(t.Context(), pool, readAll(t, pool)))
	testdb.Exec(t, pool, `ANALYZE`)
	sql := testdb.Must(os.ReadFile("authors_withdraw.sql"))(t)
	plan := testdb.Values[string](t, pool, `EXPLAIN (ANALYZE, TIMING off) `+string(sql), withdrawn, len(recorded))
	scans := regexp.MustCompile(`posts p_\d .*rows=(\d+) loops=(\d+)\)`).FindAllStringSubmatch(strings.Join(plan, "\n"), -1)
	for _, scan := range scans {
		rows, loops := testdb.Must(strconv.Atoi(scan[1]))(t), testdb.Must(strconv.Atoi(scan[2]))(t)
		if rows*loops > authors*each {
			t.Errorf("more than the comments of the authors are read: %s", scan[0])
		}
	}
	if len(scans) < 2 {
		t.Errorf("no scans are in the plan:\n%s", strings.Join(plan, "\n"))
	}
}
