package changes_test

import (
	"errors"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/events"
	"novelgate/internal/testdb"
	"novelgate/projections"
	"novelgate/readapi/changes"
	"novelgate/readapi/history"
)

// TestTheFeedWaitsForTheSynchronousStandby: a change that only the primary has, because the wait of its commit was
// cancelled, is not given out before the standby has it, and no cursor behind it. An empty page does not wait.
func TestTheFeedWaitsForTheSynchronousStandby(t *testing.T) {
	t.Parallel()
	url, standby := testdb.NewSynchronousPair(t)
	d := newDeskOn(t, url)
	d.append(t, novelOf(acme, "genji"))
	d.caughtUp(t) // the projections have begun, which waits for the standby
	standby.Cut(t)
	standby.Unreplicated(t, func(conn *pgx.Conn) error {
		return projections.Append(t.Context(), conn, events.Recorded{
			StreamType: events.NovelStream, StreamID: events.NovelID("genji"), StreamVersion: 2, ID: "approval", Source: "staff",
			Event: events.NovelApproved{Reason: "fine"},
		})
	})
	d.caughtUp(t)

	read := func(of uuid.UUID, after history.Cursor) (changes.Page, error) {
		return d.api.Feed.Page(t.Context(), changes.Query{Integration: of, After: after, Limit: 9})
	}
	var page changes.Page
	var now history.Cursor
	ended := make(chan error, 2)
	go func() {
		var err error
		page, err = read(acme, history.Cursor{})
		ended <- err
	}()
	go func() {
		var err error
		now, err = d.api.Feed.Now(t.Context())
		ended <- err
	}()
	testdb.Eventually(t, "both wait for the standby", func() bool {
		if len(ended) > 0 {
			t.Fatal("the feed shows what a failover would lose")
		}
		return standby.Waiting(t) == 2
	})
	if empty, err := read(other, history.Cursor{}); err != nil || len(empty.Changes) > 0 {
		t.Errorf("the other partner reads %+v: %v", empty, err)
	}
	standby.Return(t)
	if err := errors.Join(<-ended, <-ended); err != nil {
		t.Fatal(err)
	}
	if len(page.Changes) != 1 || page.Next != now {
		t.Errorf("%+v, and the present is at %s", page, now)
	}
}
