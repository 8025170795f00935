package readapi

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// Post is a comment as the public sees it.
type Post struct {
	ID         uuid.UUID
	ParentID   uuid.NullUUID // the comment that it replies to
	RootID     uuid.NullUUID // the top-level comment above it; null for a top-level comment
	Depth      int           // 0 for a top-level comment
	Chapter    string        // decimal number; "" for a comment on the novel as a whole
	WrittenAt  time.Time     // UTC
	ReceivedAt time.Time     // UTC
	Hidden     bool          // by staff
	Erased     bool
	Content    string // "" when hidden or erased
	Author     Author // zero when hidden or erased

	authorID uuid.NullUUID // of the partner's user whose name is shown; null for a member, or when hidden or erased
	cut      bool          // read without its text: the texts up to it exceed PageBytes
}

// Author is the member of the host platform, or the user of a partner platform, to whom a comment is attributed.
type Author struct {
	MemberID string // "" unless staff linked the partner's user to a member
	Name     string
	Platform string
}

// show sets the fields of a comment that its readers may see. An argument without a value is NULL. While the read model
// of authors has no name, the name is the username in the comment.
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

//go:embed post.sql
var postSQL string

// PostOnNovel is a comment with its novel.
type PostOnNovel struct {
	Novel    Heading
	ThreadID uuid.UUID
	Post     Post
}

// Post returns one comment, also before it is in the read model. It fails with ErrNotFound or ErrGone.
func (r *Reader) Post(ctx context.Context, id uuid.UUID) (PostOnNovel, error) {
	s, err := queryOne(ctx, r.DB, scanPostOnNovel, postSQL, id)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return r.recentPost(ctx, id)
	case err != nil:
		return PostOnNovel{}, fmt.Errorf("read comment: %w", err)
	}
	return s, checkPublic(s.Novel.state)
}

// scanPostOnNovel reads a row of post.sql or latest.sql.
func scanPostOnNovel(row pgx.CollectableRow) (PostOnNovel, error) {
	var s PostOnNovel
	var hidden bool
	var stored personal
	var member, name, platform pgtype.Text
	p := &s.Post
	if err := row.Scan(&s.Novel.ID, &s.Novel.Slug, &s.Novel.Title, &s.Novel.state, &s.ThreadID,
		&p.ID, &p.ParentID, &p.RootID, &p.Depth, &p.Chapter, &p.WrittenAt, &p.ReceivedAt, &p.authorID,
		&hidden, &stored, &member, &name, &platform); err != nil {
		return PostOnNovel{}, fmt.Errorf("scan comment: %w", err)
	}
	p.show(hidden, stored, member, name, platform)
	return s, nil
}

// personal has the personal data in the event of a comment, as far as readers see it.
type personal struct {
	Content  string `json:"content"`
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
