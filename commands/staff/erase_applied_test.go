package staff_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"novelgate/commands/staff"
	"novelgate/events"
	"novelgate/internal/testdb"
	"novelgate/projections"
)

// TestAwaitErased waits for the tables that follow the log, and names who has not come to the erasure.
func TestAwaitErased(t *testing.T) {
	t.Parallel()
	l := setupLive(t)
	appendAll(t, l.Staff, l.comments(l.name, "k", 3)...)
	l.caughtUp(t)
	id := events.AuthorID(l.name.IntegrationID, l.name.ExternalUUID)
	if err := l.AwaitErased(t.Context(), id); err != nil {
		t.Errorf("nobody is erased: %v", err)
	}
	l.stopFollowing()
	if _, err := l.EraseAuthor(t.Context(), l.name, "r"); err != nil {
		t.Fatal(err)
	}
	wantBehind := func(when string, patience time.Duration, want ...string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		err := l.AwaitErased(ctx, id)
		var behind *staff.NotAppliedError
		if !errors.As(err, &behind) {
			t.Fatalf("%s: %v", when, err)
		}
		if diff := cmp.Diff(want, behind.Projections); diff != "" {
			t.Errorf("%s (-want +got)\n%s", when, diff)
		}
	}
	wantBehind("while nothing follows the log", 200*time.Millisecond, "activity", "authors", "posts")

	ended := make(chan error, 1)
	go func() { ended <- l.AwaitErased(context.Background(), id) }()
	l.follow(t)
	if err := <-ended; err != nil {
		t.Errorf("while everything follows the log: %v", err)
	}
	if held := l.holding(t, planted); len(held) > 0 {
		t.Errorf("the author is still in %v", held)
	}

	// One that has stopped will not come to it, however long it is waited for.
	l.stopFollowing()
	if _, err := l.Pool.Exec(t.Context(),
		`UPDATE projections SET state = 'failed', error = 'cannot', failed_transaction_id = transaction_id, failed_position = position WHERE name = 'authors'`); err != nil {
		t.Fatal(err)
	}
	appendAll(t, l.Staff, l.comments(l.name, "anew", 1)...)
	if _, err := l.EraseAuthor(t.Context(), l.name, "r"); err != nil {
		t.Fatal(err)
	}
	l.follow(t)
	wantBehind("while one has failed", testdb.UntilSettled, "authors")
	if err := projections.Retry(t.Context(), l.Pool, "authors"); err != nil {
		t.Fatal(err)
	}
	if err := l.AwaitErased(t.Context(), id); err != nil {
		t.Errorf("after it went on: %v", err)
	}
}
