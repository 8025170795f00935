package e2e_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"novelgate/internal/testdb"
)

// TestVacuumAfterErasure: --vacuum waits for the tables to forget, says so when they do not, and leaves nothing in them
// nor in the statistics that were made of them before.
func TestVacuumAfterErasure(t *testing.T) {
	t.Parallel()
	s, p := writtenAndAnalysed(t, Fields{"uuid": "neighbour", "username": neighboursWord, "content": "text"},
		Fields{"uuid": "another", "username": "Another", "content": "text"})
	tables := func() []string {
		return slices.DeleteFunc(testdb.Holding(t, s.DatabaseURL, plantedUUID, plantedName, plantedWords),
			func(place string) bool {
				return strings.HasPrefix(place, "pg_dump of ")
			})
	}
	want := []string{
		"public.authors.display_name", "public.authors.external_uuid", "public.events.personal",
		"statistics of public.authors.display_name", "statistics of public.authors.external_uuid",
	}
	if diff := cmp.Diff(want, tables()); diff != "" {
		t.Fatalf("before the erasure (-want +got)\n%s", diff)
	}

	execute(t, s.DatabaseURL,
		`UPDATE projections SET state = 'failed', error = 'cannot', failed_transaction_id = transaction_id, failed_position = position WHERE name = 'authors'`)
	testdb.Eventually(t, "a projection that has failed is the only one that is behind", func() bool {
		refused := s.Refused(t, "author", "erase", p.Name, plantedUUID, "--reason", "asked", "--vacuum")
		return strings.Contains(refused.Stderr,
			"the author is erased, but the files were not freed, because these projections have not applied it "+
				"yet: authors. ") &&
			strings.Contains(refused.Stderr, "--vacuum once `novelgate projection list`") &&
			strings.Contains(refused.Stderr, "`novelgate projection retry authors`")
	})
	if out := s.CLI(t, "author", "erase", p.Name, plantedUUID, "--reason", "asked"); out.Code != 0 ||
		!strings.Contains(out.Stderr, "authors has stopped and shows what was erased") {
		t.Errorf("without --vacuum: %+v", out)
	}
	if out := s.CLI(t, "projection", "retry", "authors"); out.Code != 0 {
		t.Fatalf("retry: %+v", out)
	}
	testdb.Eventually(t, "the repetition frees what is left", func() bool {
		return s.CLI(t, "author", "erase", p.Name, plantedUUID, "--reason", "asked", "--vacuum").Code == 0
	})
	if held := tables(); len(held) > 0 {
		t.Errorf("what was erased is still in %v", held)
	}
	if held := testdb.Holding(t, s.DatabaseURL, neighboursWord); !slices.Contains(held,
		"statistics of public.authors.display_name") {
		t.Errorf("what a neighbour wrote is in %v only", held)
	}
}

// TestVacuumOfAnEmptyTable: of a table that an erasure has left empty PostgreSQL keeps the statistics. A rebuild makes
// a table without.
func TestVacuumOfAnEmptyTable(t *testing.T) {
	t.Parallel()
	another := plantedUUID + "/another"
	s, p := writtenAndAnalysed(t, Fields{"uuid": another, "username": plantedName, "content": plantedWords})
	for _, erase := range [][]string{{another}, {plantedUUID, "--vacuum"}} {
		testdb.Eventually(t, erase[0]+" is erased", func() bool {
			return s.CLI(t, append([]string{"author", "erase", p.Name, "--reason", "asked"}, erase...)...).Code == 0
		})
	}
	want := []string{"statistics of public.authors.display_name", "statistics of public.authors.external_uuid"}
	if diff := cmp.Diff(want, testdb.Holding(t, s.DatabaseURL, plantedUUID, plantedName, plantedWords)); diff != "" {
		t.Errorf("after the erasure (-want +got)\n%s", diff)
	}
	if out := s.CLI(t, "projection", "rebuild", "authors"); out.Code != 0 {
		t.Errorf("rebuild: %+v", out)
	}
	if held := testdb.Holding(t, s.DatabaseURL, plantedUUID, plantedName, plantedWords); len(held) > 0 {
		t.Errorf("after the rebuild what was erased is still in %v", held)
	}
}

// writtenAndAnalysed starts a service with comments of the planted author and of others, of which the database has made
// statistics.
func writtenAndAnalysed(t *testing.T, others ...Fields) (*Service, *Partner) {
	t.Helper()
	s := Start(t, testdb.New(t))
	p := s.NewPartner(t)
	comment := Comment(Unique("Erased"))
	planted := Fields{"uuid": plantedUUID, "username": plantedName, "content": plantedWords}
	for _, fields := range append(others, planted) {
		for range 2 { // what is there more than once is a common value
			p.Import(t, Key(), comment.With(fields)).WantPost(t, 201)
		}
	}
	s.Projected(t, []any{new(int)},
		`SELECT 1 FROM projections HAVING bool_and((transaction_id, position) = (SELECT e.transaction_id, e.position FROM events AS e ORDER BY 1 DESC, 2 DESC LIMIT 1))`)
	execute(t, s.DatabaseURL, `ANALYZE`)
	return s, p
}
