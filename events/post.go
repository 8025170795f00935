package events

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
)

// ThreadOpened records that a novel got its discussion thread.
type ThreadOpened struct {
	NovelID uuid.UUID `json:"novelId"`
}

// Type implements Event.
func (ThreadOpened) Type() string { return "thread.opened.v1" }
func (ThreadOpened) isEvent()     {}

// PostImported records that a partner's comment entered a thread.
type PostImported struct {
	IntegrationID uuid.UUID  `json:"-"` // from the source of the event
	NovelID       uuid.UUID  `json:"novelId"`
	ThreadID      uuid.UUID  `json:"threadId"`
	ParentPostID  *uuid.UUID `json:"parentPostId,omitzero"`
	ParentLost    bool       `json:"parentLost,omitzero"` // it named a parent that was not in the thread
	// exact decimal, as a JSON number; nil for a novel-level comment
	ChapterNumber jsontext.Value `json:"chapterNumber,omitzero"`
	WrittenAt     time.Time      `json:"writtenAt"` // when the comment was written, UTC, whole microseconds

	Comment *Comment `json:"-"` // nil when erased
}

// Comment is the erasable part of PostImported.
type Comment struct {
	ExternalUUID string `json:"uuid"` // the partner's identifier of the author
	Username     string `json:"username"`
	Content      string `json:"content"`
}

// Type implements Event.
func (PostImported) Type() string { return "post.imported.v1" }
func (PostImported) isEvent()     {}

func (p PostImported) personal() any {
	if p.Comment == nil {
		return nil
	}
	return p.Comment
}

func (p *PostImported) setIntegration(id uuid.UUID) { p.IntegrationID = id }

func (p *PostImported) personalTarget() any {
	p.Comment = new(Comment)
	return p.Comment
}

// PostHidden records that staff hid a comment from readers.
type PostHidden struct {
	Reason string `json:"reason"`
}

// Type implements Event.
func (PostHidden) Type() string { return "post.hidden.v1" }
func (PostHidden) isEvent()     {}

// PostRestored records that staff made a comment visible again, even if all earlier comments of its author are hidden.
type PostRestored struct {
	Reason string `json:"reason"`
}

// Type implements Event.
func (PostRestored) Type() string { return "post.restored.v1" }
func (PostRestored) isEvent()     {}
