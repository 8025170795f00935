package readapi

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"novelgate/aggregates/novel"
	"novelgate/internal/database"
)

// Post is a comment as the public sees it.
type Post struct {
	ID         uuid.UUID     `json:"postId"`
	URL        string        `json:"url"`
	ParentID   uuid.NullUUID `json:"parentPostId"`  // the comment that it replies to
	RootID     uuid.NullUUID `json:"-"`             // the top-level comment above it; null for a top-level comment
	Depth      int           `json:"depth"`         // 0 for a top-level comment
	Chapter    ChapterNumber `json:"chapterNumber"` // "" for a comment on the novel as a whole
	Content    Text          `json:"content"`       // "" when hidden or erased
	Hidden     bool          `json:"hidden"`        // by staff
	Erased     bool          `json:"erased"`        // with its author, or withdrawn
	Withdrawn  bool          `json:"withdrawn"`     // by the partner, for its author
	Author     *Author       `json:"author"`        // nil when hidden or erased
	WrittenAt  time.Time     `json:"writtenAt"`
	EditedAt   *time.Time    `json:"editedAt"` // nil when never edited, hidden or erased
	ReceivedAt time.Time     `json:"receivedAt"`

	index int64 // of its event in the log; zero outside of a Page
	cut   bool  // read without its text: the texts up to it exceed PageBytes
}

// Author is the member of the host platform, or the user of a partner platform, to whom a comment is attributed.
type Author struct {
	MemberID string `json:"memberId,omitzero"` // "" unless staff linked the partner's user to a member
	Name     string `json:"displayName,omitzero"`
	Platform string `json:"platform,omitzero"`
}

// show sets the address of a comment, and the fields that its readers may see. An argument without a value is NULL.
// While the read model of authors has no name, the name is the username in the comment.
func (p *Post) show(
	url string, hidden bool, edited pgtype.Timestamptz, stored personal, member, name, platform pgtype.Text,
) {
	p.URL, p.WrittenAt, p.ReceivedAt = url, p.WrittenAt.UTC(), p.ReceivedAt.UTC()
	p.Erased = !stored.valid
	p.Hidden = hidden && !p.Erased
	if p.Erased || p.Hidden {
		return
	}
	p.Content = stored.Content
	if edited.Valid {
		p.EditedAt = new(edited.Time.UTC())
	}
	if member.Valid {
		p.Author = &Author{MemberID: member.String}
		return
	}
	if !name.Valid {
		name.String = stored.Username
	}
	p.Author = &Author{Name: name.String, Platform: platform.String}
}

//go:embed post.sql
var postSQL string

// The statements of post.sql.
var (
	onePostSQL = postsStatement("posts", "p.post_id = $1")
	// The latest visible top-level comments on a novel. $1: novel; $2: maximum number. It examines a thousand, so that a
	// flood of hidden ones has a bounded cost.
	latestOnNovelSQL = postsStatement(`(
    SELECT k.* FROM threads t CROSS JOIN LATERAL (
        SELECT q.* FROM posts q WHERE q.thread_id = t.thread_id AND q.root_post_id IS NULL AND NOT q.vanished
        ORDER BY q.written_at DESC, q.log_index DESC LIMIT 1000
    ) AS k WHERE t.novel_id = $1
)`, visible+" ORDER BY p.written_at DESC, p.log_index DESC LIMIT $2")
	// The latest visible comments, one of each novel, of the hundred novels with the latest comments: the comment that was
	// written last or, if it is withheld, the latest of the last hundred top-level comments that is not. $1: maximum
	// number.
	latestSQL = postsStatement(`(
    SELECT q.* FROM (
        SELECT a.novel_id FROM novel_activity a WHERE a.posted_at > '-infinity'
        ORDER BY a.posted_at DESC, a.created_at DESC, a.novel_id DESC LIMIT 100
    ) AS k
    JOIN threads t ON t.novel_id = k.novel_id
    JOIN thread_activity v ON v.thread_id = t.thread_id
    CROSS JOIN LATERAL (
        SELECT p.* FROM (
            (SELECT l.* FROM posts l WHERE l.post_id = v.last_post_id)
            UNION ALL
            (SELECT l.* FROM posts l WHERE l.thread_id = t.thread_id AND l.root_post_id IS NULL AND NOT l.vanished
             ORDER BY l.written_at DESC, l.log_index DESC LIMIT 100)
        ) AS p LEFT JOIN author_decisions d ON d.author_id = p.author_id
        WHERE `+visible+` LIMIT 1
    ) AS q
)`, "n.state IN ('approved', 'published') ORDER BY p.written_at DESC, p.log_index DESC LIMIT $1")
)

// visible is the condition for a comment p that is neither hidden nor erased. d is its author_decisions.
const visible = "p.author_id IS NOT NULL AND " +
	"NOT post_is_hidden(p.hidden, p.moderated_at, p.recorded_at, d.posts_hidden_until)"

// postsStatement completes post.sql as the comment in the file says.
func postsStatement(posts, rest string) string {
	return strings.NewReplacer(":posts", posts, ":rest", rest).Replace(postSQL[strings.Index(postSQL, "SELECT"):])
}

// PostOnNovel is a comment with its novel.
type PostOnNovel struct {
	Post `json:",inline"`

	ThreadID uuid.UUID `json:"threadId"`
	Novel    Heading   `json:"novel"`
}

// Post returns one comment. It fails with ErrNotFound, ErrGone or ErrNotYet.
func (r *Reader) Post(ctx context.Context, id uuid.UUID) (PostOnNovel, error) {
	s, err := queryOne(ctx, r.DB, r.scanPostOnNovel, onePostSQL, id)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return PostOnNovel{}, r.missing(ctx, id, uuid.NullUUID{})
	case err != nil:
		return PostOnNovel{}, fmt.Errorf("read comment: %w", err)
	}
	return s, checkPublic(s.Novel.state)
}

// missing returns the reason why the read model does not have a comment on a novel, or on any novel for null: ErrNotYet
// for a comment in the log, which the read model has about a millisecond later, ErrGone if staff rejected its novel,
// otherwise ErrNotFound.
func (r *Reader) missing(ctx context.Context, id uuid.UUID, on uuid.NullUUID) error {
	state, err := queryOne(ctx, r.DB, pgx.RowTo[novel.State], `SELECT n.state FROM events e
JOIN title_lookup n ON n.novel_id = (e.data ->> 'novelId')::uuid
WHERE e.stream_id = $1 AND e.stream_version = 1 AND e.event_type = 'post.imported.v1' AND ($2::uuid IS NULL OR n.novel_id = $2)`, id, on)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return ErrNotFound
	case err != nil:
		return fmt.Errorf("find comment in the log: %w", err)
	}
	return cmp.Or(checkPublic(state), ErrNotYet)
}

// LatestOn returns the latest visible top-level comments on a novel, up to n.
func (r *Reader) LatestOn(ctx context.Context, novelID uuid.UUID, n int) ([]PostOnNovel, error) {
	return database.Collect(ctx, r.DB, "latest comments on a novel", r.scanPostOnNovel, latestOnNovelSQL, novelID, n)
}

// Latest returns the latest visible comments, up to n, one of each of the hundred novels with the latest comments. Of a
// novel whose last comment is withheld it knows top-level comments only.
func (r *Reader) Latest(ctx context.Context, n int) ([]PostOnNovel, error) {
	return database.Collect(ctx, r.DB, "latest comments", r.scanPostOnNovel, latestSQL, n)
}

// scanPostOnNovel reads a row of post.sql.
func (r *Reader) scanPostOnNovel(row pgx.CollectableRow) (PostOnNovel, error) {
	var s PostOnNovel
	var hidden bool
	var edited pgtype.Timestamptz
	var stored personal
	var member, name, platform pgtype.Text
	p := &s.Post
	if err := row.Scan(&s.Novel.ID, &s.Novel.Slug, &s.Novel.Title, &s.Novel.state, &s.ThreadID,
		&p.ID, &p.ParentID, &p.RootID, &p.Depth, &p.Chapter, &p.WrittenAt, &p.ReceivedAt,
		&edited, &p.Withdrawn, &hidden, &stored, &member, &name, &platform); err != nil {
		return PostOnNovel{}, fmt.Errorf("scan comment: %w", err)
	}
	s.Novel.URL = r.Addresses.Novel(s.Novel.Slug)
	p.show(r.Addresses.Post(s.Novel.Slug, p.ID), hidden, edited, stored, member, name, platform)
	return s, nil
}

// personal has the personal data in the event of a comment, as far as readers see it.
type personal struct {
	Content  Text   `json:"content"`
	Username string `json:"username"`

	valid bool // false after an erasure, which sets the personal data to NULL
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
