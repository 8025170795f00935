package client

import (
	"context"
	"net/http"
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
	Rule        string   `json:"rule"`        // create, update, canonical, foreign, rejected or pending
	FoldedTitle string   `json:"foldedTitle"` // the form in which titles are compared
	NovelID     *string  `json:"novelId"`     // nil, like Slug and URL, if Upsert would create the novel
	Slug        *string  `json:"slug"`
	URL         *string  `json:"url"`
	NearTitles  []string `json:"nearTitles"` // known titles with a similar spelling, if NovelID is nil
}

// Resolve tells what Upsert would do with a novel now. It checks the novel as Upsert does, and changes nothing.
func (n Novels) Resolve(ctx context.Context, novel Novel) (Resolution, error) {
	return call[Resolution](ctx, n.sender,
		request{method: http.MethodPost, path: "/api/integrations/resolve", body: novel})
}
