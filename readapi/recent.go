package readapi

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"novelgate/events"
	"novelgate/events/eventlog"
)

// The address of a comment is valid as soon as the partner gets the status 201. The read model has the comment about a
// millisecond later, or much later if the projection has stopped. Until then it is read from its stream.

var (
	//go:embed recent_attribution.sql
	attributionSQL string
	//go:embed recent_novel.sql
	recentNovelSQL string
)

const placeSQL = `SELECT coalesce(root_post_id, post_id), depth FROM posts WHERE post_id = $1`

// maxRecent limits the length of the chain of comments that are not in the read model.
const maxRecent = 32

// fromStream is a comment read from its stream.
type fromStream struct {
	Post
	novelID, threadID uuid.UUID
}

// readStream reads a comment from its stream. It fails with ErrNotFound when there is none.
func (r *Reader) readStream(ctx context.Context, id uuid.UUID) (fromStream, error) {
	// The second event, if there is one, is a decision by staff. Read no more than two: id may be that of a novel, whose
	// stream is long.
	history, err := eventlog.ReadStreamStart(ctx, r.DB, events.PostStream, id, 2)
	if err != nil {
		return fromStream{}, fmt.Errorf("read comment: %w", err)
	}
	if len(history) == 0 {
		return fromStream{}, ErrNotFound
	}
	e, ok := history[0].Event.(events.PostImported)
	if !ok {
		return fromStream{}, ErrNotFound // not the identifier of a comment
	}
	f := fromStream{novelID: e.NovelID, threadID: e.ThreadID, Post: Post{
		ID: id, Chapter: string(e.ChapterNumber), WrittenAt: e.WrittenAt, ReceivedAt: history[0].RecordedAt,
	}}
	if e.ParentPostID != nil {
		f.ParentID = uuid.NullUUID{UUID: *e.ParentPostID, Valid: true}
	}
	if e.Comment == nil {
		f.show(false, personal{}, pgtype.Text{}, pgtype.Text{}, pgtype.Text{})
		return f, nil
	}
	f.authorID = uuid.NullUUID{UUID: events.AuthorID(e.IntegrationID, e.Comment.ExternalUUID), Valid: true}
	// After any decision by staff the comment is hidden until the read model has applied the decision.
	hidden := len(history) > 1
	return f, r.attribute(ctx, &f.Post, e, hidden)
}

// attribute sets the fields of a comment that its readers may see, applying the decisions of staff about its author.
func (r *Reader) attribute(ctx context.Context, p *Post, e events.PostImported, hidden bool) error {
	type attribution struct {
		Platform, Name, Member pgtype.Text
		HiddenUntil            pgtype.Timestamptz
	}
	a, err := queryOne(ctx, r.DB, pgx.RowToStructByPos[attribution], attributionSQL, e.IntegrationID, p.authorID)
	if err != nil {
		return fmt.Errorf("read attribution: %w", err)
	}
	hidden = hidden || a.HiddenUntil.Valid && !p.ReceivedAt.After(a.HiddenUntil.Time)
	stored := personal{Content: e.Comment.Content, Username: e.Comment.Username, valid: true}
	p.show(hidden, stored, a.Member, a.Name, a.Platform)
	return nil
}

// recentPost is Post for a comment that is not in the read model yet.
func (r *Reader) recentPost(ctx context.Context, id uuid.UUID) (PostOnNovel, error) {
	chain, _, err := r.chain(ctx, id)
	if err != nil {
		return PostOnNovel{}, err
	}
	found := chain[len(chain)-1]
	n, err := queryOne(ctx, r.DB, func(row pgx.CollectableRow) (h Heading, err error) {
		err = row.Scan(&h.ID, &h.Slug, &h.Title, &h.state)
		return h, err
	}, recentNovelSQL, found.novelID)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return PostOnNovel{}, ErrNotFound
	case err != nil:
		return PostOnNovel{}, fmt.Errorf("read novel of comment: %w", err)
	}
	return PostOnNovel{Novel: n, ThreadID: found.threadID, Post: found.Post}, checkPublic(n.state)
}

// chain reads a comment that is not in the read model yet, and those of its ancestors that are not in it either. Each
// one is a reply to the previous one. anchor is the parent of the first one, in the read model; uuid.Nil when the first
// one is top-level, or the chain has maxRecent comments.
func (r *Reader) chain(ctx context.Context, id uuid.UUID) (chain []fromStream, anchor uuid.UUID, err error) {
	type placed struct {
		Root  uuid.UUID
		Depth int
	}
	var first placed // place of the first comment of the chain
	for next := id; ; {
		f, err := r.readStream(ctx, next)
		if err != nil {
			return nil, uuid.Nil, err
		}
		chain = append(chain, f)
		if !f.ParentID.Valid || len(chain) == maxRecent {
			first.Root = f.ID
			break
		}
		next = f.ParentID.UUID
		parent, err := queryOne(ctx, r.DB, pgx.RowToStructByPos[placed], placeSQL, next)
		if err == nil {
			anchor, first = next, placed{parent.Root, parent.Depth + 1}
			break
		}
		if !errors.Is(err, pgx.ErrNoRows) {
			return nil, uuid.Nil, fmt.Errorf("read place of comment: %w", err)
		}
	}
	slices.Reverse(chain)
	for i := range chain {
		chain[i].Depth = first.Depth + i
		if chain[i].Depth > 0 {
			chain[i].RootID = uuid.NullUUID{UUID: first.Root, Valid: true}
		}
	}
	return chain, anchor, nil
}

// startAtRecentPost does what startAtPost does, for a comment that is not in the read model yet.
func (r *Reader) startAtRecentPost(ctx context.Context, q pageQuery) (pageQuery, error) {
	chain, anchor, err := r.chain(ctx, q.Post.UUID)
	if err != nil {
		return pageQuery{}, err
	}
	if q.AsOf != nil && chain[len(chain)-1].ReceivedAt.After(*q.AsOf) {
		return pageQuery{}, ErrNotFound
	}
	for _, f := range chain {
		q.recent, q.recentThread = append(q.recent, f.Post), f.threadID
	}
	if anchor == uuid.Nil {
		top := &q.recent[0]
		q.start = placeOf(top.WrittenAt, 0, top.ID)
		return q, nil
	}
	found, err := r.locate(ctx, q.DiscussionParams, anchor)
	if errors.Is(err, errNotProjected) {
		return pageQuery{}, ErrNotFound // the comment is in another discussion
	}
	if err != nil {
		return pageQuery{}, err
	}
	q.startAt(found)
	return q, nil
}

// addRecent adds the comments that are not in the read model yet to the first top-level comment of the page.
func (q *pageQuery) addRecent(page *Page) error {
	if len(q.recent) == 0 {
		return nil
	}
	if page.ThreadID.UUID != q.recentThread {
		return ErrNotFound // they are in another discussion
	}
	recent := q.recent
	if top := recent[0]; !top.RootID.Valid {
		if len(page.TopLevelComments) == 0 || page.TopLevelComments[0].ID != top.ID { // else it was projected meanwhile
			page.TopLevelComments = slices.Insert(page.TopLevelComments, 0, TopLevelComment{Post: top})
		}
		recent = recent[1:]
	}
	if len(page.TopLevelComments) == 0 {
		return ErrNotFound
	}
	t := &page.TopLevelComments[0]
	for _, p := range recent {
		if !slices.ContainsFunc(t.Replies, func(known Post) bool { return known.ID == p.ID }) {
			t.Replies = append(t.Replies, p)
		}
	}
	t.Replies = preorder(t.Replies)
	return nil
}
