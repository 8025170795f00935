package readapi

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"novelgate/events"
	"novelgate/events/eventlog"
)

// Post is a comment as the public sees it.
type Post struct {
	ID         uuid.UUID
	ParentID   uuid.NullUUID // the comment that it replies to
	RootID     uuid.NullUUID // the top-level comment of its thread
	Depth      int           // 0 for a top-level comment
	Chapter    string        // decimal number; "" for a comment on the novel as a whole
	WrittenAt  time.Time     // UTC
	ReceivedAt time.Time     // UTC
	Hidden     bool          // by staff
	Erased     bool
	Content    string // "" when hidden or erased
	Author     Author // zero when hidden or erased

	authorID uuid.NullUUID
	cut      bool // its text does not fit on the page
}

// Author is the member of the host platform, or the user of a partner platform, to whom a comment is attributed.
type Author struct {
	MemberID string // "" unless staff linked the partner's user to a member
	Name     string
	Platform string
}

// Top returns the identifier of p's top-level comment, which may be p itself.
func (p *Post) Top() uuid.UUID {
	if p.RootID.Valid {
		return p.RootID.UUID
	}
	return p.ID
}

// show sets the visible fields of a comment. Missing texts are null. The name falls back to the username in the comment
// while the read model of authors has none.
func (p *Post) show(hidden bool, stored personal, member, name, platform pgtype.Text) {
	p.WrittenAt, p.ReceivedAt = p.WrittenAt.UTC(), p.ReceivedAt.UTC()
	p.Erased = !stored.valid
	p.Hidden = hidden && !p.Erased
	switch {
	case p.Erased, p.Hidden:
		p.authorID = uuid.NullUUID{}
	case member.Valid:
		p.Content, p.Author = stored.Content, Author{MemberID: member.String}
		p.authorID = uuid.NullUUID{} // the author's name on the partner platform is not shown
	default:
		if !name.Valid {
			name.String = stored.Username
		}
		p.Content, p.Author = stored.Content, Author{Name: name.String, Platform: platform.String}
	}
}

//go:embed single.sql
var singleSQL string

// Single is a comment with its novel.
type Single struct {
	Novel    Heading
	ThreadID uuid.UUID
	Post     Post
}

// Post returns one comment, also before it is in the read model. It fails with ErrNotFound or ErrGone.
func (r *Reader) Post(ctx context.Context, id uuid.UUID) (Single, error) {
	s, err := one(ctx, r.DB, scanSingle, singleSQL, id)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return r.recentPost(ctx, id)
	case err != nil:
		return Single{}, fmt.Errorf("read comment: %w", err)
	}
	return s, visible(s.Novel.state)
}

func scanSingle(row pgx.CollectableRow) (Single, error) {
	var s Single
	var hidden bool
	var stored personal
	var member, name, platform pgtype.Text
	p := &s.Post
	if err := row.Scan(&s.Novel.ID, &s.Novel.Slug, &s.Novel.Title, &s.Novel.state, &s.ThreadID,
		&p.ID, &p.ParentID, &p.RootID, &p.Depth, &p.Chapter, &p.WrittenAt, &p.ReceivedAt, &p.authorID,
		&hidden, &stored, &member, &name, &platform); err != nil {
		return Single{}, fmt.Errorf("scan comment: %w", err)
	}
	p.show(hidden, stored, member, name, platform)
	return s, nil
}

// personal is what readers see of the personal part of the event of a comment, which is null after its erasure.
type personal struct {
	Content  string `json:"content"`
	Username string `json:"username"`

	valid bool
}

// ScanBytes implements pgtype.BytesScanner.
func (p *personal) ScanBytes(stored []byte) error {
	*p = personal{valid: stored != nil}
	if stored == nil {
		return nil
	}
	if err := json.Unmarshal(stored, p); err != nil {
		return fmt.Errorf("decode the text of a comment: %w", err)
	}
	return nil
}

// The address of a comment is valid as soon as its 201 arrives. The read model has it about a millisecond later, or
// much later if the projection has stopped. Until then the comment is read from its stream.

var (
	//go:embed recent_attribution.sql
	attributionSQL string
	//go:embed recent_novel.sql
	recentNovelSQL string
)

const placeSQL = `SELECT coalesce(root_post_id, post_id), depth FROM posts WHERE post_id = $1`

// maxRecentParents limits the chain of parents that are not in the read model.
const maxRecentParents = 32

// fromStream is a comment read from its stream.
type fromStream struct {
	Post
	novelID, threadID uuid.UUID
}

// stream reads a comment from its stream; ErrNotFound when there is none.
func (r *Reader) stream(ctx context.Context, id uuid.UUID) (fromStream, error) {
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

// attribute sets the visible fields of a comment, following the decisions about its author.
func (r *Reader) attribute(ctx context.Context, p *Post, e events.PostImported, hidden bool) error {
	type attribution struct {
		Platform, Name, Member pgtype.Text
		HiddenUntil            pgtype.Timestamptz
	}
	a, err := one(ctx, r.DB, pgx.RowToStructByPos[attribution], attributionSQL, e.IntegrationID, p.authorID)
	if err != nil {
		return fmt.Errorf("read attribution: %w", err)
	}
	hidden = hidden || a.HiddenUntil.Valid && !p.ReceivedAt.After(a.HiddenUntil.Time)
	stored := personal{Content: e.Comment.Content, Username: e.Comment.Username, valid: true}
	p.show(hidden, stored, a.Member, a.Name, a.Platform)
	return nil
}

// recentPost is Post for a comment that is not in the read model yet.
func (r *Reader) recentPost(ctx context.Context, id uuid.UUID) (Single, error) {
	chain, _, err := r.chain(ctx, id)
	if err != nil {
		return Single{}, err
	}
	found := chain[len(chain)-1]
	n, err := one(ctx, r.DB, func(row pgx.CollectableRow) (h Heading, err error) {
		err = row.Scan(&h.ID, &h.Slug, &h.Title, &h.state)
		return h, err
	}, recentNovelSQL, found.novelID)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return Single{}, ErrNotFound
	case err != nil:
		return Single{}, fmt.Errorf("read novel of comment: %w", err)
	}
	return Single{Novel: n, ThreadID: found.threadID, Post: found.Post}, visible(n.state)
}

// chain reads a comment that is not in the read model yet, and its ancestors that are not in it, each one a reply to
// the previous one. anchor is the parent of the first one; uuid.Nil when that is top-level.
func (r *Reader) chain(ctx context.Context, id uuid.UUID) (chain []fromStream, anchor uuid.UUID, err error) {
	type placed struct { // a comment in the read model
		Root  uuid.UUID
		Depth int
	}
	var first placed // the root and the depth of the first one
	for next := id; ; {
		f, err := r.stream(ctx, next)
		if err != nil {
			return nil, uuid.Nil, err
		}
		chain = append(chain, f)
		if !f.ParentID.Valid || len(chain) == maxRecentParents {
			first.Root = f.ID
			break
		}
		next = f.ParentID.UUID
		parent, err := one(ctx, r.DB, pgx.RowToStructByPos[placed], placeSQL, next)
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

// aroundRecent is around for a comment that is not in the read model yet.
func (r *Reader) aroundRecent(ctx context.Context, s scan) (scan, error) {
	chain, anchor, err := r.chain(ctx, s.Post.UUID)
	if err != nil {
		return scan{}, err
	}
	if s.AsOf != nil && chain[len(chain)-1].ReceivedAt.After(*s.AsOf) {
		return scan{}, ErrNotFound
	}
	for _, f := range chain {
		s.recent, s.recentThread = append(s.recent, f.Post), f.threadID
	}
	if anchor == uuid.Nil {
		top := &s.recent[0]
		s.start = placeOf(top.WrittenAt, 0, top.ID)
		return s, nil
	}
	found, err := r.locate(ctx, s.DiscussionParams, anchor)
	if errors.Is(err, errNotProjected) {
		return scan{}, ErrNotFound // it is in another discussion
	}
	if err != nil {
		return scan{}, err
	}
	s.begin(found)
	return s, nil
}

// addRecent adds the comments that are not in the read model yet to the first top-level comment of the page.
func (s *scan) addRecent(page *Page) error {
	if len(s.recent) == 0 {
		return nil
	}
	if page.ThreadID.UUID != s.recentThread {
		return ErrNotFound // it is in another discussion
	}
	recent := s.recent
	if top := recent[0]; !top.RootID.Valid {
		if len(page.TopLevelComments) == 0 || page.TopLevelComments[0].ID != top.ID { // else the read model has it meanwhile
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
