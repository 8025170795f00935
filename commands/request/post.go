package request

import (
	"strings"
	"time"

	"novelgate/internal/markup"
	"novelgate/internal/title"
)

// The limits of a post's fields.
const (
	maxUUID     = 255
	maxUsername = 50
	maxContent  = 20_000
	maxAhead    = 5 * time.Minute
)

// Post is the validated command to import a comment.
type Post struct {
	AuthorUUID  string // exactly as sent
	Username    string // trimmed
	Title       string // of the novel, cleaned by title.Clean
	FoldedTitle string // by title.Fold
	Content     string // exactly as sent
	Chapter     *Decimal
	// WrittenAt is in UTC and cut to whole microseconds, as PostgreSQL keeps it.
	WrittenAt time.Time
	// TimestampGiven is false when WrittenAt is the time of receipt.
	TimestampGiven bool
	ParentKey      *string // exactly as sent: any string
}

// The members of a post, in the order of the documentation.
const (
	postUUID = iota
	postUsername
	postTitle
	postContent
	postChapter
	postTimestamp
	postParent
)

var postNames = []string{"uuid", "username", "novel", "content", "chapterNumber", "timestamp", "parent_uuid"}

// DecodePost reads and checks the body of a comment that was received at
// receivedAt. The error is a *problem.Error with the code invalid_request.
func DecodePost(body []byte, receivedAt time.Time) (Post, error) {
	var o object
	if err := o.parse(body, postNames); err != nil {
		return Post{}, err
	}
	p := Post{
		AuthorUUID: o.uuid(postUUID),
		Username:   o.username(postUsername),
		Title:      o.title(postTitle),
		Content:    o.content(postContent),
		Chapter:    o.chapter(postChapter),
	}
	p.WrittenAt, p.TimestampGiven = o.timestamp(postTimestamp, receivedAt)
	if s, ok := o.text(postParent, false); ok {
		p.ParentKey = &s
	}
	if err := o.err(); err != nil {
		return Post{}, err
	}
	p.FoldedTitle = title.Fold(p.Title)
	return p, nil
}

func (o *object) uuid(i int) string {
	s, ok := o.text(i, true)
	if !ok {
		return ""
	}
	if isBlank(s) {
		o.fail(i, "must have 1 to %d characters, got an empty or blank string", maxUUID)
	} else if wrong := between(s, 1, maxUUID); wrong != "" {
		o.fail(i, "%s", wrong)
	}
	return s
}

func (o *object) username(i int) string {
	s, ok := o.text(i, true)
	if !ok {
		return ""
	}
	s = strings.TrimSpace(s)
	if wrong := between(s, 1, maxUsername); wrong != "" {
		o.fail(i, "%s", wrong)
	}
	return s
}

func (o *object) content(i int) string {
	s, ok := o.text(i, true)
	if !ok {
		return ""
	}
	if isBlank(s) {
		o.fail(i, "must have 1 to %s characters, got an empty or blank string", thousands(maxContent))
		return s
	}
	if wrong := between(s, 1, maxContent); wrong != "" {
		o.fail(i, "%s", wrong)
	}
	if what, found := markup.FindHTML(s); found {
		o.fail(i, "must be plain text, but contains HTML: %s", what)
	}
	return s
}

func (o *object) chapter(i int) *Decimal {
	raw, ok := o.value(i, '0', false)
	if !ok {
		return nil
	}
	d, wrong := parseChapter(string(raw))
	if wrong != "" {
		o.fail(i, "%s", wrong)
	}
	return &d
}

// timestamp reads when the comment was written. A moment exactly maxAhead of
// receivedAt passes.
func (o *object) timestamp(i int, receivedAt time.Time) (at time.Time, given bool) {
	s, ok := o.text(i, false)
	if !ok {
		return receivedAt.UTC().Truncate(time.Microsecond), false
	}
	t, wrong := parseTimestamp(s)
	switch {
	case wrong != "":
		o.fail(i, "%s, got %q", wrong, clip(s))
	case t.After(receivedAt.Add(maxAhead)):
		o.fail(i, "must be at most five minutes in the future, got %q, received at %s",
			clip(s), receivedAt.UTC().Format(time.RFC3339))
	}
	return t.Truncate(time.Microsecond), true
}
