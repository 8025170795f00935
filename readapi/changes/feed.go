// Package changes serves the change feed for partners, GET /api/integrations/changes, in pages or live: changes of
// their own novels, comments and authors. docs/partners.md and docs/openapi.yaml describe it.
//
// The projection changes lists the events that concern each partner, in log order. The feed makes their contents from
// the log (feed.sql), so it shows no personal data of an erased author. Cursors are those of package history: a reader
// that continues from its last cursor gets every change once, and the cursor after a lost event is refused.
//
// Partners act on changes, so nothing is given out that a failover to a synchronous standby would lose: a page with
// changes, and the cursor of the present, wait until the standby has them.
package changes

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/events/eventlog"
	"novelgate/internal/database"
	"novelgate/readapi/history"
)

// Change is a change as partners see it: an item of the feed, and the body of a webhook.
type Change struct {
	// ID identifies the change in every answer and delivery. After a failover or a restore that loses events, another
	// event may get the same log index, but not the same id.
	ID         string         `json:"id"`
	Type       string         `json:"type"`
	OccurredAt time.Time      `json:"occurredAt"`
	Cursor     string         `json:"cursor"` // continues after this change
	Data       jsontext.Value `json:"data"`
	Place      history.Cursor `json:"-"` // Cursor before encoding
}

// Page is a part of a feed.
type Page struct {
	Changes []Change
	Next    history.Cursor // continues after this page
	More    bool
}

// Feed reads changes from the database.
type Feed struct{ DB database.DB }

// Query selects changes.
type Query struct {
	Integration uuid.UUID
	After       history.Cursor
	Types       []string // nil: all
	Limit       int
}

var (
	//go:embed feed.sql
	feedTemplate string
	feedSQL      = strings.Replace(feedTemplate, "/* replicated */", eventlog.ReplicatedSQL, 1)
)

// pageBytes is the size of the event data at which a page is full.
const pageBytes = 512 << 10

// Page reads a page in one round trip, and returns changes when the synchronous standby has them. It fails with
// history.ErrCursorMismatch when the cursor is of another log or of a lost part of this one. It does not check a cursor
// without a batch, which is a position that is stored in the database.
func (f *Feed) Page(ctx context.Context, q Query) (Page, error) {
	var batch pgx.Batch
	if q.After.Batch != uuid.Nil {
		q.After.QueueCheck(&batch)
	}
	page := Page{Changes: []Change{}, Next: q.After}
	batch.Queue(feedSQL, q.Integration, q.After.Position, q.Types, q.Limit+1).Query(
		func(rows pgx.Rows) error {
			defer rows.Close()
			for size := 0; rows.Next(); {
				if page.More = len(page.Changes) == q.Limit || size >= pageBytes; page.More {
					break
				}
				var c Change
				if err := rows.Scan(&c.Type, &c.OccurredAt, &c.Data, &c.Place.Position, &c.Place.Batch,
					nil); err != nil { // nil: eventlog.ReplicatedSQL
					return fmt.Errorf("read change: %w", err)
				}
				c.Cursor, c.OccurredAt = c.Place.String(), c.OccurredAt.UTC()
				sum := sha256.Sum256([]byte(c.Cursor))
				c.ID = "msg_" + hex.EncodeToString(sum[:8])
				page.Changes, page.Next = append(page.Changes, c), c.Place
				size += len(c.Data)
			}
			rows.Close()
			return rows.Err()
		})
	if err := f.DB.SendBatch(ctx, &batch).Close(); err != nil {
		return Page{}, fmt.Errorf("read changes: %w", err)
	}
	return page, nil
}

// Now returns the cursor at the end of the log. It waits until the synchronous standby has all events before it: after
// a failover that loses them, the cursor would be refused.
func (f *Feed) Now(ctx context.Context) (history.Cursor, error) {
	end, err := eventlog.End(ctx, f.DB)
	if err == nil {
		err = eventlog.AwaitReplicated(ctx, f.DB)
	}
	if err != nil {
		return history.Cursor{}, fmt.Errorf("read the end of the feed: %w", err)
	}
	return history.Cursor(end), nil
}
