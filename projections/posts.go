package projections

import (
	"context"
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"

	"novelgate/events"
	"novelgate/internal/database"
)

var (
	//go:embed posts.sql
	postsSQL string
	//go:embed posts_moderate.sql
	postsModerateSQL string
	//go:embed posts_touch.sql
	postsTouchSQL string
	//go:embed posts_erase.sql
	postsEraseSQL string
)

// Posts is the projection posts: one row per imported comment, without its text, which readers take from the event. An
// erased comment keeps its row without author and length, whether the projection reads the import before or after the
// erasure: the event of the erasure clears all earlier comments of the author. A hidden comment keeps author and
// length.
type Posts struct{}

// Name implements Projection.
func (Posts) Name() string { return "posts" }

// Generation implements Projection. Since 2: root and depth of replies; since 3: authors are erased; since 4: the
// length of the text instead of the text.
func (Posts) Generation() int { return 4 }

// Tables implements Projection.
func (Posts) Tables() []string { return []string{"posts"} }

// Streams implements Projection.
func (Posts) Streams() []string { return []string{events.PostStream, events.AuthorStream} }

// Apply implements Projection.
func (Posts) Apply(ctx context.Context, tx database.Execer, batch []events.Recorded) error {
	rows := newPostRows(len(batch))
	places := make(places, len(batch)) // postsSQL looks up older posts
	for i := range batch {
		if e, ok := batch[i].Event.(events.PostImported); ok {
			row := newPostRow(&batch[i], &e)
			rows.add(&row, places.add(row.post.Bytes, row.parent))
		}
	}
	if len(rows.posts) > 0 {
		if _, err := tx.Exec(ctx, postsSQL, rows.posts, rows.threads, rows.novels, rows.integrations, rows.authors,
			rows.parents, rows.chapters, rows.lengths, rows.written, rows.recorded, rows.tops, rows.anchors,
			rows.steps, rows.indexes, rows.parentsLost); err != nil {
			return fmt.Errorf("insert posts: %w", err)
		}
	}
	// A decision of staff follows the import in the log, so the row exists.
	if err := moderatePosts(ctx, tx, batch); err != nil {
		return err
	}
	return decideAboutAuthors(ctx, tx, batch)
}

// decideAboutAuthors clears the posts of erased authors, and moves changed_at of posts that analysts see with another
// member or visibility.
func decideAboutAuthors(ctx context.Context, tx database.Execer, batch []events.Recorded) error {
	for i := range batch {
		recorded := &batch[i]
		var err error
		switch recorded.Event.(type) {
		case events.AuthorLinked, events.AuthorUnlinked, events.AuthorPostsHidden, events.AuthorPostsRestored:
			_, err = tx.Exec(ctx, postsTouchSQL, recorded.StreamID, recorded.LogIndex, recorded.RecordedAt)
		case events.AuthorErased:
			_, err = tx.Exec(ctx, postsEraseSQL, recorded.StreamID, recorded.LogIndex)
		default: // analysts see the posts as before
		}
		if err != nil {
			return fmt.Errorf("apply %s to the posts of an author: %w", recorded.Event.Type(), err)
		}
	}
	return nil
}

// moderatePosts applies decisions of staff about single posts.
func moderatePosts(ctx context.Context, tx database.Execer, batch []events.Recorded) error {
	latest := map[uuid.UUID]*events.Recorded{}
	for i := range batch {
		switch batch[i].Event.(type) {
		case events.PostHidden, events.PostRestored:
			latest[batch[i].StreamID] = &batch[i]
		default: // does not change the visibility of a post
		}
	}
	if len(latest) == 0 {
		return nil
	}
	var (
		posts  uuidColumn
		hidden []bool
		at     timeColumn
	)
	for _, id := range slices.SortedFunc(maps.Keys(latest), compareIDs) {
		recorded := latest[id]
		_, hides := recorded.Event.(events.PostHidden)
		posts, hidden = append(posts, pgUUID(id)), append(hidden, hides)
		at = append(at, recorded.RecordedAt)
	}
	if _, err := tx.Exec(ctx, postsModerateSQL, posts, hidden, at); err != nil {
		return fmt.Errorf("moderate posts: %w", err)
	}
	return nil
}

// postRow has the values of a comment.
type postRow struct {
	post, thread, novel, integration, parent pgtype.UUID
	author, chapter                          pgtype.Text
	length                                   pgtype.Int4 // of the text, in bytes
	written, recorded                        time.Time
	index                                    int64 // in the log
	parentLost                               bool
}

func newPostRow(recorded *events.Recorded, e *events.PostImported) postRow {
	row := postRow{
		post: pgUUID(recorded.StreamID), thread: pgUUID(e.ThreadID), novel: pgUUID(e.NovelID),
		integration: pgUUID(e.IntegrationID),
		chapter:     pgtype.Text{String: string(e.ChapterNumber), Valid: e.ChapterNumber != nil},
		written:     e.WrittenAt, recorded: recorded.RecordedAt, index: recorded.LogIndex, parentLost: e.ParentLost,
	}
	if e.ParentPostID != nil {
		row.parent = pgUUID(*e.ParentPostID)
	}
	if e.Comment != nil {
		row.author = pgtype.Text{String: e.Comment.ExternalUUID, Valid: true}
		row.length = pgtype.Int4{Int32: int32(len(e.Comment.Content)), Valid: true} //nolint:gosec // a request has 32 KB
	}
	return row
}

// postRows are the parameters of postsSQL, one slice per column.
type postRows struct {
	posts, threads, novels, integrations, parents uuidColumn
	authors, chapters                             pgtype.FlatArray[pgtype.Text]
	lengths                                       pgtype.FlatArray[pgtype.Int4]
	written, recorded                             timeColumn
	tops, anchors                                 uuidColumn
	steps                                         []int32
	indexes                                       []int64
	parentsLost                                   []bool
}

func newPostRows(capacity int) *postRows {
	ids := func() uuidColumn { return make(uuidColumn, 0, capacity) }
	times := func() timeColumn { return make(timeColumn, 0, capacity) }
	return &postRows{
		posts: ids(), threads: ids(), novels: ids(), integrations: ids(), parents: ids(),
		authors: make(pgtype.FlatArray[pgtype.Text], 0, capacity), chapters: make(pgtype.FlatArray[pgtype.Text], 0, capacity),
		lengths: make(pgtype.FlatArray[pgtype.Int4], 0, capacity),
		written: times(), recorded: times(), tops: ids(), anchors: ids(), steps: make([]int32, 0, capacity),
		indexes: make([]int64, 0, capacity), parentsLost: make([]bool, 0, capacity),
	}
}

func (r *postRows) add(row *postRow, at place) {
	r.posts, r.threads, r.novels = append(r.posts, row.post), append(r.threads, row.thread), append(r.novels, row.novel)
	r.integrations, r.authors, r.parents = append(r.integrations, row.integration), append(r.authors, row.author),
		append(r.parents, row.parent)
	r.chapters, r.lengths = append(r.chapters, row.chapter), append(r.lengths, row.length)
	r.written, r.recorded = append(r.written, row.written), append(r.recorded, row.recorded)
	r.tops, r.anchors, r.steps = append(r.tops, pgUUID(at.top)), append(r.anchors, at.anchor), append(r.steps, at.steps)
	r.indexes, r.parentsLost = append(r.indexes, row.index), append(r.parentsLost, row.parentLost)
}

// place is the position of a post in its discussion: the number of steps below top, its highest known ancestor or the
// post itself. The parent of top is anchor, which is in the table or was never imported; NULL when top is a top-level
// comment.
type place struct {
	top    uuid.UUID
	anchor pgtype.UUID
	steps  int32
}

// places has the places of the posts of a batch. It relies on the order of the log: a parent precedes its replies.
type places map[uuid.UUID]place

// add returns the place of a post and remembers it.
func (p places) add(id uuid.UUID, parent pgtype.UUID) place {
	at := place{top: id, anchor: parent}
	if above, known := p[parent.Bytes]; parent.Valid && known {
		at = place{above.top, above.anchor, above.steps + 1}
	}
	p[id] = at
	return at
}
