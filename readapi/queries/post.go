package queries

import (
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"
)

// Post is a comment as the public sees it.
type Post struct {
	ID         uuid.UUID
	ParentID   uuid.NullUUID // what it replies to
	RootID     uuid.NullUUID // the top-level comment that it stands under
	Depth      int           // 0 for a top-level comment
	Chapter    string        // decimal number; "" for a comment on the novel as a whole
	WrittenAt  time.Time     // UTC
	ReceivedAt time.Time     // UTC
	Hidden     bool          // by staff
	Erased     bool
	Content    string // "" when hidden or erased
	Author     Author // zero when hidden or erased

	authorID uuid.NullUUID
	cut      bool // the page has no room for its text
}

// Author is to whom a comment is attributed: a member of the host platform, or else a user of a partner platform.
type Author struct {
	MemberID string // "" unless staff linked the partner's user to a member
	Name     string
	Platform string
}

// Top is the identifier of the top-level comment that p stands under, or is.
func (p *Post) Top() uuid.UUID {
	if p.RootID.Valid {
		return p.RootID.UUID
	}
	return p.ID
}

// show fills in what may be seen of a comment. The texts are null where there are none.
func (p *Post) show(hidden bool, content, member, name, platform pgtype.Text) {
	p.WrittenAt, p.ReceivedAt = p.WrittenAt.UTC(), p.ReceivedAt.UTC()
	p.Erased = !content.Valid
	p.Hidden = hidden && !p.Erased
	switch {
	case p.Erased, p.Hidden:
		p.authorID = uuid.NullUUID{}
	case member.Valid:
		p.Content, p.Author = content.String, Author{MemberID: member.String}
		p.authorID = uuid.NullUUID{} // their names on the partner platform are not shown any more
	default:
		p.Content, p.Author = content.String, Author{Name: name.String, Platform: platform.String}
	}
}
