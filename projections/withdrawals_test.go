package projections_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"novelgate/events"
	"novelgate/internal/testdb"
	"novelgate/projections"
)

// TestWithdrawalsOfManyAuthors: the other comments of authors are read once for a batch of withdrawals, not for each
// author.
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
	scans := slices.DeleteFunc(slices.Clone(plan), func(line string) bool {
		return !strings.Contains(line, "CTE Scan on rest")
	})
	if len(scans) != 1 || !strings.Contains(scans[0], "loops=1)") {
		t.Errorf("the comments are read more than once:\n%s", strings.Join(plan, "\n"))
	}
}
