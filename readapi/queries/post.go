package queries

import (
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"
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

// show sets the visible fields of a comment. Missing texts are null.
func (p *Post) show(hidden bool, content, member, name, platform pgtype.Text) {
	p.WrittenAt, p.ReceivedAt = p.WrittenAt.UTC(), p.ReceivedAt.UTC()
	p.Erased = !content.Valid
	p.Hidden = hidden && !p.Erased
	switch {
	case p.Erased, p.Hidden:
		p.authorID = uuid.NullUUID{}
	case member.Valid:
		p.Content, p.Author = content.String, Author{MemberID: member.String}
		p.authorID = uuid.NullUUID{} // the author's name on the partner platform is not shown
	default:
		p.Content, p.Author = content.String, Author{Name: name.String, Platform: platform.String}
	}
}
