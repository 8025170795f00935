package client

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// Novels sends novels.
type Novels struct{ sender *sender }

// Novel is a novel as you send it. Fields that are absent stay as they are stored.
type Novel struct {
	Title         string   `json:"novel"`                   // identifies the novel, ignoring case; cannot be changed
	Author        string   `json:"author,omitempty"`        // "" is absent
	Synopsis      *string  `json:"synopsis,omitempty"`      // plain text; nil is absent, "" clears it
	CoverURL      *string  `json:"coverUrl,omitempty"`      // https; nil is absent, "" clears it
	Genres        []string `json:"genres,omitzero"`         // nil is absent, an empty list clears it
	Language      *string  `json:"language,omitempty"`      // nil is absent, "" clears it
	ReadingStatus string   `json:"readingStatus,omitempty"` // ongoing, completed or hiatus; "" is absent
}

// UpsertedNovel is the answer to an upsert. If Created, Updated and Canonical are false, the novel belongs to another
// integration, and nothing has changed.
type UpsertedNovel struct {
	Created   bool   `json:"created"`   // the novel is new, and yours
	Updated   bool   `json:"updated"`   // the novel is yours, and the fields were stored
	Canonical bool   `json:"canonical"` // the host platform published the novel, and nothing has changed
	NovelID   string `json:"novelId"`
	Slug      string `json:"slug"`
	URL       string `json:"url"`

	Warnings []Warning `json:"warnings,omitempty"`

	Repetition
}

// Upsert creates a novel, or updates yours. Use a new key for every change.
func (n Novels) Upsert(ctx context.Context, key string, novel Novel) (UpsertedNovel, error) {
	var answer UpsertedNovel
	repetition, err := n.sender.command(ctx, "/api/integrations/novels", key, novel, &answer)
	answer.Repetition = repetition
	return answer, err
}

// Resolution is what an upsert would do now.
type Resolution struct {
	Rule        string  `json:"rule"`        // create, update, canonical, foreign, rejected or pending
	FoldedTitle string  `json:"foldedTitle"` // the form in which titles are compared
	NovelID     *string `json:"novelId"`     // nil, like Slug and URL, if Upsert would create the novel
	Slug        *string `json:"slug"`
	URL         *string `json:"url"`
}

// Resolve tells what Upsert would do with a novel now. It checks the novel as Upsert does, and changes nothing.
func (n Novels) Resolve(ctx context.Context, novel Novel) (Resolution, error) {
	return call[Resolution](ctx, n.sender,
		request{method: http.MethodPost, path: "/api/integrations/resolve", body: novel})
}

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
