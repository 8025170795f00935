package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
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
	repetition, err := n.sender.command(ctx, http.MethodPost, "/api/integrations/novels", key, novel, &answer)
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
	repetition, err := p.sender.command(ctx, http.MethodPost, "/api/integrations/posts", key, post, &answer)
	answer.Repetition = repetition
	return answer, err
}

// Edit is a change of a comment. Fields that are absent stay as they are; one of Content and ChapterNumber is needed.
type Edit struct {
	Content string `json:"content,omitempty"` // plain text; "" is absent
	// ChapterNumber is a decimal, as in Post, or null for the whole novel; nil is absent.
	ChapterNumber json.RawMessage `json:"chapterNumber,omitempty"`
	Timestamp     time.Time       `json:"timestamp,omitzero"` // when it was edited; zero is the time of receipt
}

// Report passes on that readers object to a comment.
type Report struct {
	Reason  string `json:"reason"`            // spam, abuse, spoiler, illegal, copyright or other
	Detail  string `json:"detail,omitempty"`  // for the staff of the host platform
	Reports int    `json:"reports,omitempty"` // number of readers; 0 counts as 1
}

// ChangedPost is the answer to an edit, a withdrawal or a report.
type ChangedPost struct {
	PostID  string `json:"postId"`
	URL     string `json:"url"`
	Applied bool   `json:"applied"` // false for an edit when a later one is on record

	Warnings []Warning `json:"warnings,omitempty"`

	Repetition
}

// Edit changes the comment that was created with the key post. Use a new key for every edit. The latest Timestamp wins,
// in whatever order edits arrive.
//
// The code of an *Error is not_found if the comment is not on record: create it, then edit it. It is gone if the
// comment was withdrawn or erased: drop the edit. The same holds for Withdraw and Report, except that a comment can be
// withdrawn again.
func (p Posts) Edit(ctx context.Context, key, post string, edit Edit) (ChangedPost, error) {
	return p.change(ctx, http.MethodPatch, key, post, "", edit)
}

// Withdraw deletes the comment that was created with the key post, for good: no retry brings it back.
func (p Posts) Withdraw(ctx context.Context, key, post string) (ChangedPost, error) {
	return p.change(ctx, http.MethodDelete, key, post, "", nil)
}

// Report reports a comment: post is the key of one of yours, or the PostID of any that readers see. The changes
// comment.hidden and report.dismissed tell what the staff of the host platform decide.
func (p Posts) Report(ctx context.Context, key, post string, report Report) (ChangedPost, error) {
	return p.change(ctx, http.MethodPost, key, post, "/reports", report)
}

func (p Posts) change(ctx context.Context, method, key, post, suffix string, body any) (ChangedPost, error) {
	if !visible(post) {
		return ChangedPost{}, fmt.Errorf("key of the comment %q: want 1 to 255 visible ASCII characters", post)
	}
	var answer ChangedPost
	repetition, err := p.sender.command(
		ctx, method, "/api/integrations/posts/"+url.PathEscape(post)+suffix, key, body, &answer)
	answer.Repetition = repetition
	return answer, err
}
