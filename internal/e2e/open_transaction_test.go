package e2e_test

import (
	"testing"

	"novelgate/internal/testdb"
)

// TestOpenTransactionsDelayNobody holds writing transactions open, in the database of the service and in another one of
// the same server, while comments are appended: whatever follows the log goes on.
func TestOpenTransactionsDelayNobody(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	ada, p := s.NewStaff(t), s.NewPartner(t)
	title := Unique("Delayed")
	novel := p.Upsert(t, Key(), Fields{"novel": title}).WantNovel(t, 201)
	wantOpen := []func(){holdTransaction(t, s.DatabaseURL), holdTransaction(t, testdb.NewEmpty(t))}
	for range 20 {
		p.Import(t, Key(), Comment(title)).WantPost(t, 201)
	}
	ada.Post(t, "/api/admin/novels/"+novel.NovelID+"/reject", Key(), Fields{"reason": "no"}).WantJSON(t, 200, &struct{}{})
	end := value[int64](t, s.DatabaseURL, `SELECT max(log_index) FROM events`)
	for follower, atTheEnd := range map[string]func() bool{
		"every projection": func() bool {
			return value[bool](t, s.DatabaseURL, `SELECT min(position) > $1 FROM projections`, end)
		},
		"the ledger": func() bool {
			return value[bool](t, s.DatabaseURL, `SELECT coalesce(max(tree_size), 0) > $1 FROM ledger_checkpoints`, end)
		},
		"the feed of changes": func() bool {
			feed := p.feed(t)
			return len(feed) > 0 && feed[len(feed)-1].Type == "novel.rejected"
		},
	} {
		testdb.Eventually(t, follower+" is at the end", atTheEnd)
	}
	for _, want := range wantOpen {
		want()
	}
}

// holdTransaction begins a transaction in a database, writes in it, and leaves it open until the test ends. wantOpen
// checks that it is still open.
func holdTransaction(t *testing.T, databaseURL string) (wantOpen func()) {
	t.Helper()
	connection := testdb.Connect(t, databaseURL)
	testdb.Exec(t, connection, `BEGIN ISOLATION LEVEL REPEATABLE READ`)
	testdb.Exec(t, connection, `CREATE TEMPORARY TABLE held AS SELECT n FROM generate_series(1, 10) AS n`)
	const transaction = `SELECT pg_current_xact_id_if_assigned()::text`
	held := testdb.Value[string](t, connection, transaction)
	return func() {
		t.Helper()
		if now := testdb.Value[string](t, connection, transaction); now != held || held == "" {
			t.Errorf("the transaction is %q, it was %q: this test has shown nothing", now, held)
		}
	}
}
