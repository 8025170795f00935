package client

import (
	"context"
	"encoding/json"
	"time"
)

// Posts sends comments.
type Posts struct{ sender *sender }

// Post is a comment as you send it.
type Post struct {
	UUID          string      `json:"uuid"`                    // your ID of the author; never reuse it for another author
	Username      string      `json:"username"`                // the author's name at the time of the comment
	Novel         string      `json:"novel"`                   // title
	Content       string      `json:"content"`                 // plain text
	ChapterNumber json.Number `json:"chapterNumber,omitempty"` // a decimal, "0" is the prologue; "" for the whole novel
	Timestamp     time.Time   `json:"timestamp,omitzero"`      // when it was written; zero is the time of receipt
	ParentKey     string      `json:"parent_uuid,omitempty"`   // the key of the comment that it replies to
}

// CreatedPost is the answer to a comment.
type CreatedPost struct {
	Created      bool    `json:"created"` // by this request; false if the request is a retry
	PostID       string  `json:"postId"`
	ThreadID     string  `json:"threadId"`
	ParentPostID *string `json:"parentPostId"` // nil for a top-level comment
	URL          string  `json:"url"`

	Warnings []Warning `json:"warnings,omitempty"`

	Repetition
}

// Warning tells of a part of a command that the service has left out: a member that it does not know, or a parent that
// is no comment of yours in this discussion, so that the reply stands at the top level.
type Warning struct {
	Code    string `json:"code"` // unknown_member or parent_not_found
	Field   string `json:"field"`
	Message string `json:"message"`
}

// Create sends a comment. The key is the immutable ID of the comment on your platform: replies refer to it.
func (p Posts) Create(ctx context.Context, key string, post Post) (CreatedPost, error) {
	var answer CreatedPost
	repetition, err := p.sender.command(ctx, "/api/integrations/posts", key, post, &answer)
	answer.Repetition = repetition
	return answer, err
}
