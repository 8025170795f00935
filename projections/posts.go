package projections

import (
	"context"
	_ "embed"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"novelgate/events"
	"novelgate/internal/database"
)

var (
	//go:embed posts.sql
	postsSQL string
	//go:embed posts_moderate.sql
	postsModerateSQL string
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
	var places places // only of the batch: postsSQL looks up older posts
	for i := range batch {
		if e, ok := batch[i].Event.(events.PostImported); ok {
			row := newPostRow(&batch[i], &e)
			rows.add(&row, places.add(row.post.Bytes, row.parent))
		}
	}
	if len(rows.posts) > 0 {
		if _, err := tx.Exec(ctx, postsSQL, rows.posts, rows.threads, rows.novels, rows.integrations, rows.authors,
			rows.parents, rows.chapters, rows.lengths, rows.written, rows.recorded, rows.tops, rows.anchors,
			rows.steps); err != nil {
			return fmt.Errorf("insert posts: %w", err)
		}
	}
	// A decision of staff follows the import in the log, so the row exists.
	if err := moderatePosts(ctx, tx, batch); err != nil {
		return err
	}
	return erasePosts(ctx, tx, batch)
}

// erasePosts clears the posts of erased authors.
func erasePosts(ctx context.Context, tx database.Execer, batch []events.Recorded) error {
	for i := range batch {
		if _, ok := batch[i].Event.(events.AuthorErased); !ok {
			continue
		}
		at := batch[i].Position
		if _, err := tx.Exec(ctx, postsEraseSQL, batch[i].StreamID, at.TransactionID, at.Ordinal); err != nil {
			return fmt.Errorf("erase posts of an author: %w", err)
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
		posts    uuidColumn
		hidden   []bool
		at       timeColumn
		versions []int32
	)
	for _, id := range slices.SortedFunc(maps.Keys(latest), compareIDs) {
		recorded := latest[id]
		_, hides := recorded.Event.(events.PostHidden)
		posts, hidden = append(posts, pgUUID(id)), append(hidden, hides)
		at, versions = append(at, recorded.RecordedAt), append(versions, int32(recorded.StreamVersion)) //nolint:gosec // an integer of the database
	}
	if _, err := tx.Exec(ctx, postsModerateSQL, posts, hidden, at, versions); err != nil {
		return fmt.Errorf("moderate posts: %w", err)
	}
	return nil
}

// postRow has the values of a comment. One struct per row is cheaper than a slice per column when rows are copied in
// another order.
type postRow struct {
	post, thread, novel, integration, author, parent pgtype.UUID
	chapter                                          pgtype.Text
	length                                           pgtype.Int4 // of the text, in bytes
	written, recorded                                time.Time
}

func newPostRow(recorded *events.Recorded, e *events.PostImported) postRow {
	row := postRow{
		post: pgUUID(recorded.StreamID), thread: pgUUID(e.ThreadID), novel: pgUUID(e.NovelID),
		integration: pgUUID(e.IntegrationID),
		chapter:     pgtype.Text{String: string(e.ChapterNumber), Valid: e.ChapterNumber != nil},
		written:     e.WrittenAt, recorded: recorded.RecordedAt,
	}
	if e.ParentPostID != nil {
		row.parent = pgUUID(*e.ParentPostID)
	}
	if e.Comment != nil {
		row.author = pgUUID(events.AuthorID(e.IntegrationID, e.Comment.ExternalUUID))
		row.length = pgtype.Int4{Int32: int32(len(e.Comment.Content)), Valid: true} //nolint:gosec // a request has 32 KB
	}
	return row
}

// postRows are the parameters of postsSQL, one slice per column.
type postRows struct {
	posts, threads, novels, integrations, authors, parents uuidColumn
	chapters                                               pgtype.FlatArray[pgtype.Text]
	lengths                                                pgtype.FlatArray[pgtype.Int4]
	written, recorded                                      timeColumn
	tops, anchors                                          uuidColumn
	steps                                                  []int32
}

func newPostRows(capacity int) *postRows {
	ids := func() uuidColumn { return make(uuidColumn, 0, capacity) }
	times := func() timeColumn { return make(timeColumn, 0, capacity) }
	return &postRows{
		posts: ids(), threads: ids(), novels: ids(), integrations: ids(), authors: ids(), parents: ids(),
		chapters: make(pgtype.FlatArray[pgtype.Text], 0, capacity), lengths: make(pgtype.FlatArray[pgtype.Int4], 0, capacity),
		written: times(), recorded: times(), tops: ids(), anchors: ids(), steps: make([]int32, 0, capacity),
	}
}

func (r *postRows) add(row *postRow, at place) {
	r.posts, r.threads, r.novels = append(r.posts, row.post), append(r.threads, row.thread), append(r.novels, row.novel)
	r.integrations, r.authors, r.parents = append(r.integrations, row.integration), append(r.authors, row.author),
		append(r.parents, row.parent)
	r.chapters, r.lengths = append(r.chapters, row.chapter), append(r.lengths, row.length)
	r.written, r.recorded = append(r.written, row.written), append(r.recorded, row.recorded)
	r.tops, r.anchors, r.steps = append(r.tops, pgUUID(at.top)), append(r.anchors, at.anchor), append(r.steps, at.steps)
}

var postColumns = []string{
	"post_id", "thread_id", "novel_id", "integration_id", "author_id", "parent_post_id", "chapter_number",
	"content_bytes", "written_at", "recorded_at", "root_post_id", "depth",
}

// NewLoader implements Bulk.
func (Posts) NewLoader() Loader { return &postsLoader{} }

type postsLoader struct{ places places }

// loadedPost is a row to copy.
type loadedPost struct {
	postRow
	root   pgtype.UUID
	depth  int32
	number pgtype.Numeric // chapter
}

// Load implements Loader. An import, the first event of its stream, adds one row, unless it is a reply with an ancestor
// that was not loaded recently: then Apply looks up the place of the reply.
func (l *postsLoader) Load(batch []events.Recorded) ([]Rows, []events.Recorded, error) {
	rows := make([]loadedPost, 0, len(batch))
	var rest []events.Recorded
	for i := range batch {
		if e, ok := batch[i].Event.(events.PostImported); ok && batch[i].StreamVersion == 1 {
			row := loadedPost{postRow: newPostRow(&batch[i], &e)}
			if at := l.places.add(batch[i].StreamID, row.parent); !at.anchor.Valid {
				if err := row.complete(at); err != nil {
					return nil, nil, err
				}
				rows = append(rows, row)
				continue
			}
		}
		if _, erases := batch[i].Event.(events.AuthorErased); erases || batch[i].StreamType == events.PostStream {
			rest = append(rest, batch[i])
		}
	}
	next, order := make([]any, len(postColumns)), byThread(rows)
	values := pgx.CopyFromSlice(len(rows), func(i int) ([]any, error) {
		r := &rows[order[i]]
		// Pointers, because converting a value to an interface would allocate.
		next[0], next[1], next[2], next[3] = &r.post, &r.thread, &r.novel, &r.integration
		next[4], next[5], next[6], next[7] = &r.author, &r.parent, &r.number, &r.length
		next[8], next[9], next[10], next[11] = &r.written, &r.recorded, &r.root, &r.depth
		return next, nil
	})
	return []Rows{{Table: "posts", Columns: postColumns, Values: values}}, rest, nil
}

// complete sets the place of the post and the number of its chapter.
func (p *loadedPost) complete(at place) (err error) {
	p.root, p.depth = pgtype.UUID{Bytes: at.top, Valid: at.steps > 0}, at.steps
	if !p.chapter.Valid {
		return nil
	}
	if p.number, err = parseNumeric(p.chapter.String); err != nil {
		return fmt.Errorf("chapter number of post %s: %w", uuid.UUID(p.post.Bytes), err)
	}
	return nil
}

// byThread returns an order of rows in which those of one thread are adjacent, so that indexes by thread insert into
// pages that are in memory.
func byThread(rows []loadedPost) []int {
	order := make([]int, len(rows))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order,
		func(a, b int) int { return compareIDs(rows[a].thread.Bytes, rows[b].thread.Bytes) })
	return order
}

// parseNumeric reads a JSON number as PostgreSQL does: it keeps all digits after the point.
func parseNumeric(number string) (pgtype.Numeric, error) {
	mantissa, exponent, scientific := strings.Cut(strings.ReplaceAll(number, "E", "e"), "e")
	var power int
	var err error
	if scientific {
		power, err = strconv.Atoi(exponent)
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits, ok := new(big.Int).SetString(whole+fraction, 10)
	if !ok || err != nil {
		return pgtype.Numeric{}, fmt.Errorf("%s is no number", number)
	}
	return pgtype.Numeric{Int: digits, Exp: int32(power - len(fraction)), Valid: true}, nil //nolint:gosec // the interface limits exponents
}

// keepPlaces is the minimum number of latest posts that places remembers; the maximum is twice as many, at about 60
// bytes each. Most replies are to recent comments.
const keepPlaces = 100_000

// place is the position of a post in its discussion: the number of steps below top, its highest known ancestor or the
// post itself. The parent of top is anchor, which is in the table or was never imported; NULL when top is a top-level
// comment.
type place struct {
	top    uuid.UUID
	anchor pgtype.UUID
	steps  int32
}

// places remembers the places of the latest posts. It relies on the order of the log: a parent precedes its replies.
type places struct{ latest, earlier map[uuid.UUID]place }

// add returns the place of a post and remembers it.
func (p *places) add(id uuid.UUID, parent pgtype.UUID) place {
	at := place{top: id, anchor: parent}
	if parent.Valid {
		above, known := p.latest[parent.Bytes]
		if !known {
			above, known = p.earlier[parent.Bytes]
		}
		if known {
			at = place{above.top, above.anchor, above.steps + 1}
		}
	}
	if p.latest == nil || len(p.latest) >= keepPlaces {
		p.earlier, p.latest = p.latest, map[uuid.UUID]place{}
	}
	p.latest[id] = at
	return at
}
