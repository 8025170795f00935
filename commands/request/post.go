package request

import (
	"strings"
	"time"

	"novelgate/internal/httpkit"
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
	// WrittenAt is in UTC, truncated to whole microseconds like PostgreSQL timestamps.
	WrittenAt time.Time
	// TimestampGiven is false when WrittenAt is the time of receipt.
	TimestampGiven bool
	ParentKey      *string // exactly as sent: any string
}

// postNames are the members of a post, in the order of the documentation.
var postNames = []string{"uuid", "username", "novel", "content", "chapterNumber", "timestamp", "parent_uuid"}

// DecodePost decodes and validates the body of a comment that was received at receivedAt. The error is a *problem.Error
// with the code invalid_request.
func DecodePost(body []byte, receivedAt time.Time) (Post, error) {
	var o object
	if err := o.Parse(body, postNames); err != nil {
		return Post{}, err //nolint:wrapcheck // already a problem
	}
	p := Post{
		AuthorUUID: o.uuid("uuid"),
		Username:   o.username("username"),
		Title:      o.title("novel"),
		Content:    o.content("content"),
		Chapter:    o.chapter("chapterNumber"),
	}
	p.WrittenAt, p.TimestampGiven = o.timestamp("timestamp", receivedAt)
	if s, ok := o.Text("parent_uuid", false); ok {
		p.ParentKey = &s
	}
	if err := o.Err(); err != nil {
		return Post{}, err //nolint:wrapcheck // already a problem
	}
	p.FoldedTitle = title.Fold(p.Title)
	return p, nil
}

func (o *object) uuid(name string) string {
	s, ok := o.Text(name, true)
	if ok {
		o.wantWords(name, s, maxUUID)
	}
	return s
}

func (o *object) username(name string) string {
	s, ok := o.Text(name, true)
	if !ok {
		return ""
	}
	s = strings.TrimSpace(s)
	o.wantLength(name, s, 1, maxUsername)
	return s
}

func (o *object) content(name string) string {
	s, ok := o.Text(name, true)
	if !ok || !o.wantWords(name, s, maxContent) {
		return s
	}
	if what, found := markup.FindHTML(s); found {
		o.Fail(name, "must be plain text, but contains HTML: %s", what)
	}
	return s
}

func (o *object) chapter(name string) *Decimal {
	number, ok := o.Number(name)
	if !ok {
		return nil
	}
	d, wrong := parseChapter(number)
	if wrong != "" {
		o.Fail(name, "%s", wrong)
	}
	return &d
}

// timestamp reads when the comment was written. A time up to maxAhead after receivedAt is valid, inclusive.
func (o *object) timestamp(name string, receivedAt time.Time) (at time.Time, given bool) {
	s, ok := o.Text(name, false)
	if !ok {
		return receivedAt.UTC().Truncate(time.Microsecond), false
	}
	t, wrong := parseTimestamp(s)
	switch {
	case wrong != "":
		o.Fail(name, "%s, got %q", wrong, httpkit.Clip(s))
	case t.After(receivedAt.Add(maxAhead)):
		o.Fail(name, "must be at most five minutes in the future, got %q, received at %s",
			httpkit.Clip(s), receivedAt.UTC().Format(time.RFC3339))
	}
	return t.Truncate(time.Microsecond), true
}
