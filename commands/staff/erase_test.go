package staff_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/mod/sumdb/tlog"

	"novelgate/aggregates/author"
	"novelgate/commands/staff"
	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/events/ledger"
	"novelgate/internal/testdb"
	"novelgate/projections"
)

// TestEraseAuthor erases an author with many comments, a link and a block, and an author with the same identifier at
// another partner.
func TestEraseAuthor(t *testing.T) {
	t.Parallel()
	l := setupLive(t)
	namesake := staff.AuthorName{IntegrationID: newIntegration(t, l.Staff, "Another"), ExternalUUID: l.name.ExternalUUID}
	mine := l.comments(l.name, "mine", 1201)
	appendAll(t, l.Staff, mine...)
	reply := comment(namesake.IntegrationID, namesake.ExternalUUID, "reply")
	e, _ := reply.Event.(events.PostImported)
	e.ParentPostID = &mine[0].StreamID
	reply.Event = e
	appendAll(t, l.Staff, reply)
	for _, decide := range []func() (staff.Author, error){
		func() (staff.Author, error) { return l.LinkAuthor(t.Context(), l.name, "PlantedMember", "") },
		func() (staff.Author, error) { return l.BlockAuthor(t.Context(), l.name, "spam") },
		func() (staff.Author, error) { return l.HideAuthorPosts(t.Context(), l.name, "spam") },
		func() (staff.Author, error) { return l.LinkAuthor(t.Context(), namesake, "member-2", "") },
	} {
		testdb.Must(decide())(t)
	}
	l.caughtUp(t)
	wantHeld := []string{
		"public.authors.display_name", "public.author_decisions.member_id", "public.events.personal",
	}
	held := l.holding(t, planted)
	for _, place := range wantHeld {
		if !slices.Contains(held, place) {
			t.Fatalf("the search does not find what is planted in %s, only in %v", place, held)
		}
	}
	entries := l.entries(t)

	erased := testdb.Must(l.EraseAuthor(t.Context(), l.name, "asked for it"))(t)
	if erased.AuthorID != testdb.AuthorID(l.name.IntegrationID, l.name.ExternalUUID) || erased.Comments != 1201 ||
		erased.Decisions != 3 || erased.ErasedAt.IsZero() {
		t.Errorf("erased %+v", erased)
	}
	l.caughtUp(t)
	l.wantForgotten(t, planted)
	check := func(when string) {
		t.Helper()
		for what, sql := range map[string]string{
			"events of the author": `SELECT count(*) FROM events WHERE data ->> 'integrationId' = $1::text AND (personal IS NOT NULL OR (salt IS NOT NULL AND event_type <> 'author.erased.v1'))`,
			"posts":                `SELECT count(*) FROM analytics.posts WHERE integration_id::text = $1 AND (author_id IS NOT NULL OR content IS NOT NULL OR member_id IS NOT NULL)`,
			"authors":              `SELECT count(*) FROM analytics.authors WHERE integration_id::text = $1`,
			"decisions":            `SELECT count(*) FROM author_decisions WHERE integration_id::text = $1 AND NOT (external_uuid IS NULL AND member_id IS NULL AND posts_hidden_until IS NULL AND blocked)`,
		} {
			if n := l.count(t, sql, l.name.IntegrationID.String()); n != 0 {
				t.Errorf("%s: %d %s left", when, n, what)
			}
		}
		if n := l.count(t, `SELECT count(*) FROM posts WHERE integration_id = $1`, l.name.IntegrationID); n != 1201 {
			t.Errorf("%s: %d posts of 1201 are in place", when, n)
		}
		// The author at the other partner is unchanged.
		if n := l.count(t, `SELECT count(*) FROM analytics.posts p JOIN analytics.authors a USING (author_id)
			WHERE p.integration_id = $1 AND p.content = 'content of reply' AND a.external_uuid = $2 AND p.member_id = 'member-2' AND p.parent_post_id = $3`,
			namesake.IntegrationID, namesake.ExternalUUID, mine[0].StreamID); n != 1 {
			t.Errorf("%s: the namesake is not who they were", when)
		}
	}
	check("after the erasure")
	l.rebuildAll(t)
	check("after a rebuild")
	l.wantForgotten(t, planted)
	l.wantProofs(t, entries)

	// By the identifier, staff still find that the author is blocked.
	found, err := l.Author(t.Context(), l.name)
	if err != nil || !found.Blocked || found.MemberID != nil || found.DisplayName != nil || found.PostsHidden {
		t.Errorf("%+v, %v", found, err)
	}
	again, err := l.EraseAuthor(t.Context(), l.name, "asked twice")
	if diff := cmp.Diff(staff.Erasure{AuthorID: erased.AuthorID, ErasedAt: erased.ErasedAt}, again); err != nil ||
		diff != "" {
		t.Errorf("%v; (-want +got)\n%s", err, diff)
	}
	testdb.Must(l.EraseAuthor(t.Context(), namesake, "they, too"))(t)
	l.caughtUp(t)
	l.wantForgotten(t, l.name.ExternalUUID+"|content of reply|member-2")
}

// entries returns the entries of all events so far, in log order.
func (l *live) entries(t *testing.T) (entries [][]byte) {
	t.Helper()
	for row, err := range eventlog.Rows(t.Context(), l.Pool,
		`SELECT `+eventlog.Columns+` FROM events ORDER BY log_index`) {
		if err != nil {
			t.Fatal(err)
		}
		entry := testdb.Must(ledger.AppendEntry(nil, row))(t)
		entries = append(entries, entry)
	}
	return entries
}

// wantProofs checks that the ledger starts with these entries, each with a proof.
func (l *live) wantProofs(t *testing.T, entries [][]byte) {
	t.Helper()
	var size int64
	var root []byte
	if err := l.Pool.QueryRow(t.Context(), `SELECT tree_size, root_hash FROM ledger_state`).Scan(&size,
		&root); err != nil {
		t.Fatal(err)
	}
	tree := tlog.Tree{N: size, Hash: tlog.Hash(root)}
	tiles := served{ledger.NewStore(l.Pool)}
	hashes := tlog.TileHashReader(tree, tiles)
	var bundle []byte
	for index, entry := range entries {
		proof := testdb.Must(tlog.ProveRecord(size, int64(index), hashes))(t)
		if err := tlog.CheckRecord(proof, size, tree.Hash, int64(index), tlog.RecordHash(entry)); err != nil {
			t.Fatalf("entry %d: %v", index, err)
		}
		bundle = ledger.AppendToBundle(bundle, entry)
		n, width := index/ledger.TileWidth, index%ledger.TileWidth+1
		if width == ledger.TileWidth || index == len(entries)-1 {
			got, err := tiles.store.Tile(t.Context(), tlog.Tile{H: ledger.TileHeight, L: -1, N: int64(n), W: width})
			if err != nil || !bytes.Equal(got, bundle) {
				t.Fatalf("entry bundle %d is another one: %v", n, err)
			}
			bundle = nil
		}
	}
}

// served reads tiles as clients do.
type served struct{ store *ledger.Store }

func (s served) Height() int { return ledger.TileHeight }

func (s served) ReadTiles(tiles []tlog.Tile) (data [][]byte, err error) {
	for _, tile := range tiles {
		one, err := s.store.Tile(context.Background(), tile)
		if err != nil {
			return nil, err
		}
		data = append(data, one)
	}
	return data, nil
}

func (served) SaveTiles([]tlog.Tile, [][]byte) {}

// TestEraseWithoutTables: the erasure finds comments in the log that no table has, and fails for an unknown author.
func TestEraseWithoutTables(t *testing.T) {
	t.Parallel()
	l := &live{Staff: setup(t)}
	l.seal(t)
	l.name = staff.AuthorName{IntegrationID: newIntegration(t, l.Staff, "Fan Site"), ExternalUUID: "planted/uuid"}
	if _, err := l.EraseAuthor(t.Context(), l.name, "r"); !errors.Is(err, staff.ErrNoSuchAuthor) {
		t.Errorf("an unknown author: %v", err)
	}
	appendAll(t, l.Staff, l.comments(l.name, "k", 7)...)
	namesake := staff.AuthorName{
		IntegrationID: newIntegration(t, l.Staff, "Another Site"), ExternalUUID: l.name.ExternalUUID,
	}
	appendAll(t, l.Staff, l.comments(namesake, "k", 2)...)
	erased, err := l.EraseAuthor(t.Context(), l.name, "r")
	if err != nil || erased.Comments != 7 {
		t.Fatalf("%+v, %v", erased, err)
	}
	if erased, err = l.EraseAuthor(t.Context(), namesake, "r"); err != nil || erased.Comments != 2 {
		t.Fatalf("the author of another integration with the same identifier: %+v, %v", erased, err)
	}
	l.wantForgotten(t, planted+"|"+l.name.ExternalUUID)
	for want, of := range map[error]staff.AuthorName{
		author.ErrUUIDInvalid: {IntegrationID: l.name.IntegrationID},
	} {
		if _, err := l.EraseAuthor(t.Context(), of, "r"); !errors.Is(err, want) {
			t.Errorf("%v instead of %v", err, want)
		}
	}
	if _, err := l.EraseAuthor(t.Context(), l.name, " "); !errors.Is(err, staff.ErrReasonRequired) {
		t.Error(err)
	}
}

// TestErasureSparesLaterDecisions: a decision after an erasure stays on record until the next erasure, which counts it.
func TestErasureSparesLaterDecisions(t *testing.T) {
	t.Parallel()
	l := &live{Staff: setup(t)}
	l.name = staff.AuthorName{IntegrationID: newIntegration(t, l.Staff, "Fan Site"), ExternalUUID: "planted/uuid"}
	for n, decide := range []func(context.Context, staff.AuthorName, string) (staff.Author, error){
		l.BlockAuthor, l.UnblockAuthor, l.BlockAuthor,
	} {
		testdb.Must(decide(t.Context(), l.name, "why"))(t)
		if erased, err := l.EraseAuthor(t.Context(), l.name, "asked for it"); err != nil || erased.Decisions != 1 {
			t.Errorf("erasure %d: %+v, %v", n+1, erased, err)
		}
	}
	l.wantForgotten(t, l.name.ExternalUUID)
}

// TestEraseBeforeTheSeal: an event that is erased before it is sealed gets its original entry.
func TestEraseBeforeTheSeal(t *testing.T) {
	t.Parallel()
	l := setupLive(t)
	l.caughtUp(t)
	l.stopSealing()
	appendAll(t, l.Staff, l.comments(l.name, "k", 3)...)
	entries := l.entries(t)
	testdb.Must(l.EraseAuthor(t.Context(), l.name, "r"))(t)
	if n := l.count(t, `SELECT count(*) FROM events WHERE personal_digest IS NOT NULL`); n != 3 {
		t.Errorf("%d of 3 comments are erased", n)
	}
	l.seal(t)
	l.caughtUp(t)
	l.wantProofs(t, entries)
	l.wantForgotten(t, planted+"|"+l.name.ExternalUUID)
}

// TestEraseWaitsItsTurn: a comment whose transaction has the lock of the log, and commits after the erasure has begun,
// is erased and counted.
func TestEraseWaitsItsTurn(t *testing.T) {
	t.Parallel()
	l := setupLive(t)
	appendAll(t, l.Staff, l.comments(l.name, "before", 1)...)
	l.caughtUp(t)
	// The holder of the lock waits for another lock, so it is not ended as stopped.
	const other = 1
	blocker, late := testdb.Begin(t, l.Pool), testdb.Begin(t, l.Pool)
	testdb.Exec(t, blocker, `SELECT pg_advisory_xact_lock($1)`, other)
	if err := projections.Append(t.Context(), late, l.comments(l.name, "late", 1)...); err != nil {
		t.Fatal(err)
	}
	appended := make(chan error, 1)
	go func() {
		_, err := late.Exec(context.Background(), `SELECT set_config('lock_timeout', '0', true)`)
		if err == nil {
			_, err = late.Exec(context.Background(), `SELECT pg_advisory_xact_lock($1)`, other)
		}
		appended <- errors.Join(err, late.Commit(context.Background()))
	}()
	waiting := func(n int) bool {
		return l.count(t, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`) == n
	}
	testdb.Eventually(t, "the late comment waits", func() bool { return waiting(1) })
	type result struct {
		done staff.Erasure
		err  error
	}
	ended := make(chan result, 1)
	go func() {
		done, err := l.EraseAuthor(t.Context(), l.name, "r")
		ended <- result{done, err}
	}()
	testdb.Eventually(t, "the erasure waits", func() bool { return len(ended) > 0 || waiting(2) })
	if err := errors.Join(blocker.Rollback(t.Context()), <-appended); err != nil {
		t.Fatal(err)
	}
	if got := <-ended; got.err != nil || got.done.Comments != 2 {
		t.Fatalf("%+v, %v", got.done, got.err)
	}
	l.caughtUp(t)
	l.wantForgotten(t, planted+"|"+l.name.ExternalUUID)
}

// TestErasureAfterASetBack: an erasure that has searched a log which was set back since fails, because a comment may
// have the place of a lost event. A repetition finds it.
func TestErasureAfterASetBack(t *testing.T) {
	t.Parallel()
	s := setup(t)
	name := staff.AuthorName{IntegrationID: newIntegration(t, s, "Partner"), ExternalUUID: "u"}
	appendAll(t, s, comment(name.IntegrationID, "u", "k"))
	appendAll(t, s, comment(name.IntegrationID, "another", "lost"))
	testdb.Exec(t, s.Pool, `ALTER TABLE events DISABLE TRIGGER USER`)
	failover := testdb.Begin(t, s.Pool)
	testdb.Exec(t, failover, `SELECT FROM events WHERE event_id = 'k' FOR SHARE`)
	erased := make(chan error, 1)
	go func() {
		_, err := s.EraseAuthor(context.Background(), name, "asked for it")
		erased <- err
	}()
	testdb.Eventually(t, "the erasure has searched the log", func() bool {
		return testdb.Value[bool](t, s.Pool, `SELECT EXISTS (SELECT FROM pg_stat_activity
WHERE datname = current_database() AND wait_event_type = 'Lock')`)
	})
	testdb.Exec(t, failover, `DELETE FROM events WHERE event_id = 'lost'`)
	if err := projections.Append(t.Context(), failover, comment(name.IntegrationID, "u", "late")); err != nil {
		t.Fatal(err)
	}
	if err := failover.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-erased; !errors.Is(err, staff.ErrBusy) {
		t.Errorf("%v, want ErrBusy", err)
	}
	again := testdb.Must(s.EraseAuthor(t.Context(), name, "asked for it"))(t)
	const left = `SELECT count(*) FROM events WHERE personal ->> 'uuid' = 'u'`
	if n := testdb.Value[int](t, s.Pool, left); n > 0 || again.Comments != 1 {
		t.Errorf("%+v, %d comments are left", again, n)
	}
}

// TestErasureRaces erases while the author comments and projections are rebuilt.
func TestErasureRaces(t *testing.T) {
	t.Parallel()
	l := setupLive(t)
	appendAll(t, l.Staff, l.comments(l.name, "before", 400)...)
	l.caughtUp(t)
	var writing, rebuilding sync.WaitGroup
	stop := make(chan struct{})
	for writer := range 2 {
		writing.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
					appendAll(t, l.Staff, l.comments(l.name, fmt.Sprintf("writer %d %d", writer, i), 2)...)
					time.Sleep(5 * time.Millisecond)
				}
			}
		})
	}
	rebuilding.Go(func() {
		l.rebuild(t, projections.Posts{})
		l.rebuild(t, projections.AuthorDecisions{})
	})
	for range 3 {
		if _, err := l.EraseAuthor(t.Context(), l.name, "r"); err != nil {
			t.Error(err)
		}
		if n := l.count(t, `SELECT count(*) FROM events e WHERE e.personal IS NOT NULL AND e.data ->> 'integrationId' = $1::text AND e.log_index < (
			SELECT max(x.log_index) FROM events x WHERE x.event_type = 'author.erased.v1')`, l.name.IntegrationID.String()); n != 0 {
			t.Errorf("%d comments from before the erasure are left", n)
		}
	}
	rebuilding.Wait()
	close(stop)
	writing.Wait()
	l.caughtUp(t)
	// Comments after the last erasure are there, and no others: in the log, in the tables, and after a rebuild.
	for _, when := range []string{"followed", "rebuilt"} {
		left := l.count(t, `SELECT count(*) FROM events WHERE personal ->> 'content' IS NOT NULL`)
		if n := l.count(t, `SELECT count(*) FROM analytics.posts WHERE content IS NOT NULL`); n != left {
			t.Errorf("%s: %d posts show words, %d events hold some", when, n, left)
		}
		if n := l.count(t, `SELECT count(*) FROM authors`); n != min(left, 1) {
			t.Errorf("%s: %d authors of %d comments", when, n, left)
		}
		if when == "followed" {
			l.rebuildAll(t)
		}
	}
	testdb.Must(l.EraseAuthor(t.Context(), l.name, "r"))(t)
	l.caughtUp(t)
	l.wantForgotten(t, planted+"|"+l.name.ExternalUUID)
}
