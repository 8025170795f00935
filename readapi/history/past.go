package history

import (
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"novelgate/aggregates/novel"
	"novelgate/aggregates/principal"
	"novelgate/events"
)

// The states of novels, discussions and integrations at a past moment, as JSON for people. Novels and integrations are
// folded by their aggregates.

// Until returns the events recorded up to a moment, from a list in log order: a prefix of each stream, although the
// clock of the database may have been set back between two events.
func Until(moment time.Time, history []events.Recorded) []events.Recorded {
	var kept []events.Recorded
	ended := map[uuid.UUID]bool{}
	for _, r := range history {
		ended[r.StreamID] = ended[r.StreamID] || r.RecordedAt.After(moment)
		if !ended[r.StreamID] {
			kept = append(kept, r)
		}
	}
	return kept
}

// Trace describes the last event that a state includes.
type Trace struct {
	Version   int       `json:"version"` // of the stream; 0: it did not exist yet
	ChangedAt time.Time `json:"changedAt,omitzero"`
	ChangedBy string    `json:"changedBy,omitempty"`
}

// advance moves the trace to the next event.
func (t *Trace) advance(recorded *events.Recorded) {
	t.Version, t.ChangedAt, t.ChangedBy = recorded.StreamVersion, recorded.RecordedAt.UTC(), recorded.Metadata.Actor
}

// Exists reports whether the aggregate existed.
func (t Trace) Exists() bool { return t.Version > 0 }

// Novel is the past state of a novel.
type Novel struct {
	NovelID uuid.UUID   `json:"novelId"`
	Title   string      `json:"novel"`
	Slug    string      `json:"slug"`
	State   novel.State `json:"state"`
	Owner   string      `json:"owner"` // an integration's id, or "host"
	novel.Details
	Trace
}

// host is the owner of novels that belong to no integration.
const host = "host"

// NovelOf folds the events of a novel's stream, oldest first.
func NovelOf(id uuid.UUID, history []events.Recorded) Novel {
	n := novel.Novel{ID: id}
	var trace Trace
	for i := range history {
		n = n.Apply(history[i].Event)
		trace.advance(&history[i])
	}
	shown := Novel{NovelID: id, Title: n.Title, Slug: n.Slug, State: n.State, Details: n.Details, Trace: trace}
	switch {
	case n.OwnerID != nil:
		shown.Owner = n.OwnerID.String()
	case trace.Exists():
		shown.Owner = host
	}
	return shown
}

// Thread is the past state of a novel's discussion. Its version is the number of its events and of its comments'
// events.
type Thread struct {
	ThreadID uuid.UUID `json:"threadId"`
	NovelID  uuid.UUID `json:"novelId"`
	Posts    []Post    `json:"posts"` // in the order of the log
	Trace
}

// Post is the past state of a comment. Erased content is absent, even from states before the erasure.
type Post struct {
	PostID        uuid.UUID      `json:"postId"`
	ParentPostID  *uuid.UUID     `json:"parentPostId"`
	IntegrationID uuid.UUID      `json:"integrationId"`
	ChapterNumber jsontext.Value `json:"chapterNumber,omitzero"`
	WrittenAt     time.Time      `json:"writtenAt"`
	RecordedAt    time.Time      `json:"recordedAt"`
	Username      string         `json:"username,omitempty"`
	Content       string         `json:"content,omitempty"`
	LastEvent     string         `json:"lastEvent"` // type of the newest event of the comment, such as a decision of staff
}

// ThreadOf folds the events of a novel's thread and of its comments, in the order of the log.
func ThreadOf(novelID uuid.UUID, history []events.Recorded) Thread {
	shown := Thread{NovelID: novelID, Posts: []Post{}}
	places := map[uuid.UUID]int{}
	for i := range history {
		recorded := &history[i]
		switch e := recorded.Event.(type) {
		case events.ThreadOpened:
			shown.ThreadID = recorded.StreamID
		case events.PostImported:
			post := Post{
				PostID: recorded.StreamID, ParentPostID: e.ParentPostID, IntegrationID: e.IntegrationID,
				ChapterNumber: e.ChapterNumber, WrittenAt: e.WrittenAt, RecordedAt: recorded.RecordedAt.UTC(),
			}
			if e.Comment != nil {
				post.Username, post.Content = e.Comment.Username, e.Comment.Content
			}
			places[recorded.StreamID] = len(shown.Posts)
			shown.Posts = append(shown.Posts, post)
		case events.PostEdited:
			if place, ok := places[recorded.StreamID]; ok && e.NewText && e.Comment != nil {
				shown.Posts[place].Content = e.Comment.Content
			}
			if place, ok := places[recorded.StreamID]; ok {
				shown.Posts[place].ChapterNumber = e.Chapter
			}
		default: // shown in LastEvent
		}
		if place, ok := places[recorded.StreamID]; ok {
			shown.Posts[place].LastEvent = recorded.Event.Type()
		}
		version := shown.Version + 1
		shown.advance(recorded)
		shown.Version = version // not that of one stream
	}
	return shown
}

// Integration is the past state of an integration.
type Integration struct {
	IntegrationID   uuid.UUID `json:"integrationId"`
	Name            string    `json:"name"`
	Enabled         bool      `json:"enabled"`
	Capabilities    []string  `json:"capabilities"`
	PostsPerMinute  int       `json:"postsPerMinute"`
	NovelsPerMinute int       `json:"novelsPerMinute"`
	LinesPerMinute  int       `json:"linesPerMinute"` // of bulk imports
	Review          bool      `json:"review"`
	Keys            []Key     `json:"keys"`
	Trace
}

// Key is the past state of an API key.
type Key struct {
	KeyID     uuid.UUID  `json:"keyId"`
	Revoked   bool       `json:"revoked"`
	ExpiresAt *time.Time `json:"expiresAt"`
}

// IntegrationOf folds the events of an integration's stream, oldest first.
func IntegrationOf(id uuid.UUID, history []events.Recorded) Integration {
	i := principal.FoldIntegration(id, history)
	shown := Integration{
		IntegrationID: id, Name: i.Name, Enabled: i.Enabled, Capabilities: []string{}, PostsPerMinute: i.PostsPerMinute,
		NovelsPerMinute: i.NovelsPerMinute, LinesPerMinute: i.LinesPerMinute, Review: i.Review, Keys: []Key{},
	}
	for capability := range i.Capabilities {
		shown.Capabilities = append(shown.Capabilities, string(capability))
	}
	slices.Sort(shown.Capabilities)
	for keyID, key := range i.Keys {
		shown.Keys = append(shown.Keys, Key{keyID, key.Revoked, key.ExpiresAt})
	}
	slices.SortFunc(shown.Keys, func(a, b Key) int { return strings.Compare(a.KeyID.String(), b.KeyID.String()) })
	for n := range history {
		shown.advance(&history[n])
	}
	return shown
}
