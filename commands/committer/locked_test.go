package committer_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"novelgate/aggregates/novel"
	"novelgate/commands/committer"
	"novelgate/events/eventlog"
	"novelgate/internal/testdb"
)

// TestLockedTitles: while another session locks the rows of a fifth of the titles, upserts of these are refused soon.
// All other commands succeed, in the same batch and in later ones, also comments on the titles.
func TestLockedTitles(t *testing.T) {
	t.Parallel()
	r, p := setup(t)
	upserts := func(synopsis string) (commands batch) {
		for i := range 100 {
			fields := novel.Fields{Synopsis: &synopsis}
			commands = append(commands, p.novel(fmt.Sprint(synopsis, i), fmt.Sprint("Title ", i), fields))
		}
		return commands
	}
	for _, a := range r.together(t, upserts("old")...) {
		a.want(t, "created")
	}
	holder := testdb.Begin(t, r.db)
	testdb.Exec(t, holder, `SELECT FROM title_lookup WHERE folded_title LIKE 'title %0' OR folded_title LIKE 'title %5' FOR UPDATE`)
	start := time.Now()
	for i, a := range r.together(t, append(upserts("new"), p.post("beside", "Title 0"))...) {
		if i == 100 {
			a.want(t, "post")
		} else if i%5 == 0 {
			a.want(t, committer.ErrUnavailable)
		} else {
			a.want(t, "updated")
		}
	}
	took := time.Since(start)
	t.Logf("the batch took %s", took)
	if took > 10*time.Second { // it would, if it waited 100 ms for each
		t.Error("the batch waited for each of the rows")
	}
	r.prompt = true
	r.want(t, committer.ErrUnavailable, p.novel("alone", "Title 0", novel.Fields{Synopsis: new("alone")}))
	r.want(t, "post", p.post("alone", "Title 0"))
	testdb.NoError(t, holder.Rollback(t.Context()))
	for i, a := range r.together(t, upserts("new")...) {
		if i%5 == 0 {
			a.want(t, "updated")
		} else {
			a.want(t, "updated replayed")
		}
	}
	checkTruth(t, r.db)
}

// TestHeldLog: while another session holds the lock of the log, commands wait, and are refused at the time-out. Then
// they succeed. Close waits for the answers.
func TestHeldLog(t *testing.T) {
	t.Parallel()
	url := testdb.New(t)
	r, p := newReplica(t, url, timeout(2*time.Second)), newPartner()
	r.prompt = true
	release := hold(t, url)
	first, second := r.queue(t, p.post("a", "Title")), r.queue(t, p.post("b", "Title"))
	r.Close()
	(<-first).want(t, committer.ErrUnavailable)
	(<-second).want(t, committer.ErrUnavailable)
	release()
	r = newReplica(t, url)
	for _, a := range r.together(t, p.post("a", "Title"), p.post("b", "Title")) {
		a.want(t, "post")
	}
	checkTruth(t, r.db)
}

// TestStoppedHolderIsEnded: a client has stopped under the lock of the log. Its session is ended, and commands succeed
// before their time-out.
func TestStoppedHolderIsEnded(t *testing.T) {
	t.Parallel()
	r, p := setup(t)
	r.prompt = true
	holder := testdb.Begin(t, r.db)
	var lock pgx.Batch
	eventlog.Lock(&lock)
	testdb.NoError(t, holder.SendBatch(t.Context(), &lock).Close())
	r.want(t, "created", p.novel("k", "Title", novel.Fields{}))
	checkTruth(t, r.db)
}
