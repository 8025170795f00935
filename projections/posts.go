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
	//go:embed posts_edit.sql
	postsEditSQL string
	//go:embed posts_withdraw.sql
	postsWithdrawSQL string
	//go:embed authors_withdraw.sql
	authorsWithdrawSQL string
)

// Posts is the projection posts: a row per imported comment in posts, without its text, which readers take from the
// event; the authors in authors; and in reported_posts the comments whose reports wait for a decision. They are one
// projection, because they derive from the same events, and a withdrawal finds the author of the comment in posts.
//
// An erased or withdrawn comment keeps its row without author and length, whether the projection reads the import
// before or after that: the event of an author's erasure clears all earlier comments of the author. A hidden comment
// keeps author and length.
type Posts struct{}

// Name implements Projection.
func (Posts) Name() string { return "posts" }

// Generation implements Projection. Since 5: edits, withdrawals, reports, and the authors.
func (Posts) Generation() int { return 5 }

// Tables implements Projection.
func (Posts) Tables() []string { return []string{"posts", "authors", "reported_posts"} }

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
		if err := reappear(ctx, tx, rows.parents); err != nil {
			return err
		}
	}
	// What is applied below follows the import in the log, so the row exists. The order does not matter for other reasons:
	// nothing follows a withdrawal, and edits and decisions change different columns.
	for _, apply := range []func(context.Context, database.Execer, []events.Recorded) error{
		moderatePosts, editPosts, applyReports, applyAuthors, withdrawPosts, decideAboutAuthors,
	} {
		if err := apply(ctx, tx, batch); err != nil {
			return err
		}
	}
	return nil
}

// reappear shows the tombstones of withdrawn comments that get replies. parents has NULL for top-level comments.
func reappear(ctx context.Context, tx database.Execer, parents uuidColumn) error {
	if !slices.ContainsFunc(parents, func(p pgtype.UUID) bool { return p.Valid }) {
		return nil
	}
	_, err := tx.Exec(ctx, `UPDATE posts SET vanished = false WHERE vanished AND post_id = ANY ($1::uuid[])`, parents)
	if err != nil {
		return fmt.Errorf("show tombstones: %w", err)
	}
	return nil
}

// editPosts applies edits.
func editPosts(ctx context.Context, tx database.Execer, batch []events.Recorded) error {
	type change struct {
		text     pgtype.Int8 // log index of the new text
		length   pgtype.Int4 // of the new text; NULL once it was erased
		moved    bool        // to chapter
		chapter  pgtype.Text
		editedAt time.Time
		changed  time.Time
	}
	changes := map[uuid.UUID]*change{}
	for i := range batch {
		e, ok := batch[i].Event.(events.PostEdited)
		if !ok || !e.NewText && !e.NewChapter {
			continue
		}
		c := entry(changes, batch[i].StreamID)
		c.editedAt, c.changed = latest(c.editedAt, e.EditedAt), batch[i].RecordedAt
		if e.NewText {
			c.text, c.length = pgtype.Int8{Int64: batch[i].LogIndex, Valid: true}, lengthOf(e.Comment)
		}
		if e.NewChapter {
			c.moved, c.chapter = true, pgtype.Text{String: string(e.Chapter), Valid: e.Chapter != nil}
		}
	}
	if len(changes) == 0 {
		return nil
	}
	var (
		posts             uuidColumn
		texts             pgtype.FlatArray[pgtype.Int8]
		lengths           pgtype.FlatArray[pgtype.Int4]
		moved             []bool
		chapters          pgtype.FlatArray[pgtype.Text]
		editedAt, changed timeColumn
	)
	for _, id := range slices.SortedFunc(maps.Keys(changes), compareIDs) {
		c := changes[id]
		posts, texts, lengths = append(posts, pgUUID(id)), append(texts, c.text), append(lengths, c.length)
		moved, chapters = append(moved, c.moved), append(chapters, c.chapter)
		editedAt, changed = append(editedAt, c.editedAt), append(changed, c.changed)
	}
	if _, err := tx.Exec(ctx, postsEditSQL, posts, texts, lengths, moved, chapters, editedAt, changed); err != nil {
		return fmt.Errorf("edit posts: %w", err)
	}
	return nil
}

// withdrawPosts clears withdrawn posts, and takes the names of their authors from other comments.
func withdrawPosts(ctx context.Context, tx database.Execer, batch []events.Recorded) error {
	var posts uuidColumn
	var at timeColumn
	for i := range batch {
		if _, ok := batch[i].Event.(events.PostWithdrawn); ok {
			posts, at = append(posts, pgUUID(batch[i].StreamID)), append(at, batch[i].RecordedAt)
		}
	}
	if len(posts) == 0 {
		return nil
	}
	if _, err := tx.Exec(ctx, authorsWithdrawSQL, posts, batch[len(batch)-1].LogIndex); err != nil {
		return fmt.Errorf("withdraw the names of authors: %w", err)
	}
	if _, err := tx.Exec(ctx, postsWithdrawSQL, posts, at); err != nil {
		return fmt.Errorf("withdraw posts: %w", err)
	}
	return nil
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
			if _, err = tx.Exec(ctx, reportsEraseSQL, recorded.StreamID, recorded.LogIndex); err == nil {
				_, err = tx.Exec(ctx, postsEraseSQL, recorded.StreamID, recorded.LogIndex)
			}
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
	}
	row.length = lengthOf(e.Comment)
	return row
}

// lengthOf returns the length of a text in bytes; NULL for one that was erased.
func lengthOf(comment *events.Comment) pgtype.Int4 {
	if comment == nil {
		return pgtype.Int4{}
	}
	return pgtype.Int4{Int32: int32(len(comment.Content)), Valid: true} //nolint:gosec // a request has 32 KB
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
