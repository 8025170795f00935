package staff_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"novelgate/projections"
	"novelgate/projections/rebuild"
)

// compareAll replays the log for every projection and returns the tables that differ, with the first differing row.
func (l *live) compareAll(t *testing.T) map[string]string {
	t.Helper()
	differing := map[string]string{}
	for _, p := range append(projections.All(), projections.Inline()...) {
		_, inline, err := projections.Find(p.Name())
		if err != nil {
			t.Fatal(err)
		}
		c, err := rebuild.Compare(t.Context(), rebuild.Config{Pool: l.Pool, Projection: p, Inline: inline, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		for _, table := range c.Tables {
			if table.DifferenceCount > 0 {
				differing[table.Name] = table.Differences[0].String()
			}
		}
	}
	return differing
}

// TestErasedAuthorComparesEqual: the tables forget an erased author as a replay does, which cannot know what the log has lost. Everything that was
// counted wrongly is a difference all the same.
func TestErasedAuthorComparesEqual(t *testing.T) {
	t.Parallel()
	l := setupLive(t)
	other := l.name
	other.ExternalUUID = "somebody else"
	appendAll(t, l.Staff, l.comments(l.name, "old", 5)...)
	appendAll(t, l.Staff, l.comments(other, "other", 3)...)
	if _, err := l.LinkAuthor(t.Context(), l.name, "PlantedMember", ""); err != nil {
		t.Fatal(err)
	}
	l.caughtUp(t)
	if _, err := l.EraseAuthor(t.Context(), l.name, "asked for it"); err != nil {
		t.Fatal(err)
	}
	l.caughtUp(t)
	if n := l.count(t, `SELECT count(*) FROM daily_authors WHERE author_id NOT IN (SELECT author_id FROM authors)`); n != 0 {
		t.Errorf("%d rows of erased authors are kept", n)
	}
	for name, found := range l.compareAll(t) {
		t.Errorf("erased: %s: %s", name, found)
	}
	appendAll(t, l.Staff, l.comments(l.name, "new", 2)...)
	l.caughtUp(t)
	for name, found := range l.compareAll(t) {
		t.Errorf("begun anew: %s: %s", name, found)
	}
	for table, column := range map[string]string{"daily_facts": "authors", "thread_activity": "participants", "integration_activity": "authors"} {
		if _, err := l.Pool.Exec(t.Context(), `UPDATE `+table+` SET `+column+` = `+column+` + 1`); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.Pool.Exec(t.Context(), `DELETE FROM daily_authors WHERE author_id IN (SELECT author_id FROM authors WHERE external_uuid = $1)`, other.ExternalUUID); err != nil {
		t.Fatal(err)
	}
	found := l.compareAll(t)
	for _, table := range []string{"daily_facts", "thread_activity", "integration_activity", "daily_authors"} {
		if found[table] == "" {
			t.Errorf("what was changed in %s is not found", table)
		}
		delete(found, table)
	}
	for name, difference := range found {
		t.Errorf("%s was not changed: %s", name, difference)
	}
}

// TestCompareBehindAnErasure: tables that have yet to apply an erasure hold what the log has lost. They are no forgery: the comparison waits
// for the projection, and says so if that does not run.
func TestCompareBehindAnErasure(t *testing.T) {
	t.Parallel()
	l := setupLive(t)
	appendAll(t, l.Staff, l.comments(l.name, "old", 5)...)
	l.caughtUp(t)
	l.stopFollowing()
	if _, err := l.EraseAuthor(t.Context(), l.name, "asked for it"); err != nil {
		t.Fatal(err)
	}
	compare := func(p projections.Projection) (rebuild.Comparison, error) {
		return rebuild.Compare(t.Context(), rebuild.Config{Pool: l.Pool, Projection: p, Logger: slog.New(slog.DiscardHandler)})
	}
	if c, err := compare(projections.Activity{}); !errors.Is(err, rebuild.ErrNotComparable) || !strings.Contains(err.Error(), "erasure") {
		t.Errorf("nobody applies it: %+v, %v", c, err)
	}
	if _, err := compare(projections.Novels{}); err != nil {
		t.Errorf("novels have no authors: %v", err)
	}
	type outcome struct {
		rebuild.Comparison
		error
	}
	ended := make(chan outcome, 1)
	go func() {
		c, err := compare(projections.Posts{})
		ended <- outcome{c, err}
	}()
	time.Sleep(100 * time.Millisecond) // most likely it waits by now; otherwise it need not
	l.follow(t)
	if end := <-ended; end.error != nil || end.Tables[0].DifferenceCount != 0 {
		t.Errorf("applied while it was waited for: %+v", end)
	}
}
