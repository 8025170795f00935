package reading

import (
	"time"

	"github.com/google/uuid"
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

// show fills in what may be seen of a comment. The texts are nil where there are none.
func (p *Post) show(hidden bool, content, member, name, platform *string) {
	p.WrittenAt, p.ReceivedAt = p.WrittenAt.UTC(), p.ReceivedAt.UTC()
	p.Erased = content == nil
	p.Hidden = hidden && !p.Erased
	if p.Erased || p.Hidden {
		p.authorID = uuid.NullUUID{}
		return
	}
	p.Content = *content
	switch {
	case member != nil:
		p.Author.MemberID = *member
		p.authorID = uuid.NullUUID{} // their names on the partner platform are not shown any more
		return
	case name != nil:
		p.Author.Name = *name
	}
	if platform != nil {
		p.Author.Platform = *platform
	}
}
