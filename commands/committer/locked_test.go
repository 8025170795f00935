package committer_test

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"novelgate/aggregates/novel"
	"novelgate/commands/committer"
	"novelgate/internal/testdb"
)

// locks are the ways in which another session may lock a title, by name, with the later result of an upsert.
var locks = map[string]struct {
	known bool // the novel exists
	lock  func(t *testing.T, tx pgx.Tx)
	then  string
}{
	"row": {true, func(t *testing.T, tx pgx.Tx) {
		t.Helper()
		testdb.Exec(t, tx, `SELECT FROM title_lookup WHERE folded_title = 'locked' FOR UPDATE`)
	}, "updated"},
	"creation": {false, func(t *testing.T, tx pgx.Tx) {
		t.Helper()
		create(t, tx, newPartner(), "other", "Locked")
	}, "created"},
}

// TestLockedTitleDelaysNoOther: while another session locks a title, commands on all other titles are answered, in its
// batch and in later ones. Its own commands wait in order, and are executed after the lock is released.
func TestLockedTitleDelaysNoOther(t *testing.T) {
	t.Parallel()
	for name, tc := range locks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, p := setup(t)
			if tc.known {
				r.must(t, p.novel("create", "Locked", novel.Fields{}))
			}
			holder := begin(t, r.db)
			tc.lock(t, holder)

			release := r.occupy(t)
			var others []<-chan answer
			upsert := func(i int) <-chan answer { // in order
				return r.queue(t, p.novel(fmt.Sprint("locked ", i), "Locked", novel.Fields{Synopsis: new(fmt.Sprint(i))}))
			}
			var locked []<-chan answer
			for i := range 20 {
				if i == 7 {
					locked = append(locked, upsert(0))
					r.awaitQueue(t, len(others)+len(locked))
				}
				others = append(others, r.start(p.novel(fmt.Sprint(i), fmt.Sprint("Other ", i), novel.Fields{})))
				r.awaitQueue(t, len(others)+len(locked))
			}
			release()
			for _, answers := range others {
				(<-answers).want(t, "created")
			}
			for i := range 20 {
				if i%10 == 0 {
					locked = append(locked, upsert(len(locked)))
					r.awaitQueue(t, 0)
				}
				r.want(t, "post", p.post(fmt.Sprint(i), fmt.Sprint("Other ", i)))
			}
			if tc.known {
				r.want(t, "post", p.post("comment", "Locked"))
				// A later upsert joins the waiting ones, so its batch does not meet the lock.
				cuts, release := r.bisections(), r.occupy(t)
				locked = append(locked, upsert(len(locked)))
				another := r.start(p.novel("another", "Another", novel.Fields{}))
				r.awaitQueue(t, 2)
				release()
				if a := <-another; a.String() != "created" || r.bisections() != cuts {
					t.Errorf("%v, and the batch was cut %d times", a, r.bisections()-cuts)
				}
			}
			for i, answers := range locked {
				if len(answers) > 0 {
					t.Fatalf("upsert %d of the locked title, before the lock is gone: %v", i, <-answers)
				}
			}
			if err := holder.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			for i, answers := range locked {
				want := tc.then
				if i > 0 {
					want = "updated"
				}
				(<-answers).want(t, want)
			}
			checkTruth(t, r.db)
			shown, err := newStaff(r.db).Novel(t.Context(), "locked")
			if err != nil || shown.Synopsis != fmt.Sprint(len(locked)-1) {
				t.Errorf("synopsis %q, want that of the last: %v", shown.Synopsis, err)
			}
		})
	}
}

// TestManyLockedTitles: however many titles of a batch have locked rows, the others are committed at once.
func TestManyLockedTitles(t *testing.T) {
	t.Parallel()
	r, p := setup(t)
	const titles = 100
	upsert := func(synopsis string) (answers []<-chan answer) {
		release := r.occupy(t)
		for i := range titles {
			answers = append(answers, r.start(p.novel(
				fmt.Sprint(synopsis, i), fmt.Sprint("Title ", i), novel.Fields{Synopsis: &synopsis})))
		}
		r.awaitQueue(t, titles)
		release()
		return answers
	}
	for _, answers := range upsert("old") {
		(<-answers).want(t, "created")
	}
	holder := begin(t, r.db)
	testdb.Exec(t, holder, `SELECT FROM title_lookup WHERE folded_title LIKE 'title %0' OR folded_title LIKE 'title %5' FOR UPDATE`)
	cuts := r.bisections()
	answers := upsert("new")
	for i, answers := range answers {
		if i%5 == 0 {
			continue
		}
		(<-answers).want(t, "updated")
	}
	if n := r.bisections() - cuts; n > 0 {
		t.Errorf("the batch was cut %d times", n)
	}
	if err := holder.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, answers := range answers {
		if i%5 != 0 {
			continue
		}
		(<-answers).want(t, "updated")
	}
	checkTruth(t, r.db)
}

// TestLockedTitleIsUnavailable: a command on a title that stays locked is refused, and succeeds later. Close waits for
// its answer.
func TestLockedTitleIsUnavailable(t *testing.T) {
	t.Parallel()
	for name, tc := range locks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := testdb.New(t)
			pool := testdb.Pool(t, url)
			r := newReplica(t, url, timeout(shortly))
			p := newPartner()
			if tc.known {
				r.must(t, p.novel("create", "Locked", novel.Fields{}))
			}
			holder := begin(t, pool)
			tc.lock(t, holder)
			answers := r.start(p.novel("n", "Locked", novel.Fields{}))
			testdb.Eventually(t, "it was tried", func() bool { return r.conflicts() > 0 })
			r.Close()
			(<-answers).want(t, committer.ErrUnavailable)
			if err := holder.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			if a := newReplica(t, url).submit(t.Context(), p.novel("n", "Locked", novel.Fields{})); a.String() != tc.then {
				t.Errorf("afterwards: %v, want %s", a, tc.then)
			}
			checkTruth(t, pool)
		})
	}
}

// TestLockedTitleAfterAConflict: attempts after a conflict wait for a row lock no longer than the first one.
func TestLockedTitleAfterAConflict(t *testing.T) {
	t.Parallel()
	r, p := setup(t)
	r.must(t, p.novel("create", "Locked", novel.Fields{}))
	testdb.Exec(t, r.db, `CREATE SEQUENCE conflicts; CREATE FUNCTION conflict() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN IF nextval('conflicts') = 1 THEN RAISE unique_violation; END IF; RETURN NULL; END $$;
		CREATE TRIGGER conflict BEFORE INSERT ON events FOR EACH STATEMENT EXECUTE FUNCTION conflict()`)
	holder := begin(t, r.db)
	locks["row"].lock(t, holder)

	release := r.occupy(t)
	locked := r.start(p.novel("locked", "Locked", novel.Fields{Synopsis: new("new")}))
	other := r.start(p.novel("other", "Other", novel.Fields{}))
	r.awaitQueue(t, 2)
	release()
	(<-other).want(t, "created")
	if err := holder.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	(<-locked).want(t, nil)
	checkTruth(t, r.db)
}
