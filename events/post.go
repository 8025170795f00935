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

// PostEdited records that a partner passed on an edit of its comment. An edit that arrives after a later one is
// recorded and changes nothing: text and chapter are each those of the latest edit by EditedAt and, at the same time,
// in the log.
type PostEdited struct {
	IntegrationID uuid.UUID `json:"-"` // from the source of the event
	ThreadID      uuid.UUID `json:"threadId"`
	IsReply       bool      `json:"isReply,omitzero"`
	EditedAt      time.Time `json:"editedAt"` // by the partner, otherwise when it was received; UTC, whole microseconds
	// as sent: an exact decimal, null for a novel-level comment, nil to leave it
	ChapterNumber jsontext.Value `json:"chapterNumber,omitzero"`
	NewText       bool           `json:"newText,omitzero"`    // readers see the text of this event
	NewChapter    bool           `json:"newChapter,omitzero"` // the comment is on the chapter of this event
	// the state of the comment after the event, and its chapter before; nil for a novel-level comment
	Chapter       jsontext.Value `json:"chapter,omitzero"`
	FormerChapter jsontext.Value `json:"formerChapter,omitzero"`
	TextAt        time.Time      `json:"textAt,omitzero"`    // EditedAt of the latest new text
	ChapterAt     time.Time      `json:"chapterAt,omitzero"` // EditedAt of the latest new chapter

	Comment *Comment `json:"-"` // with the new text; nil when only the chapter was edited, or when erased
}

// Type implements Event.
func (PostEdited) Type() string { return "post.edited.v1" }
func (PostEdited) isEvent()     {}

func (e PostEdited) personal() any {
	if e.Comment == nil {
		return nil
	}
	return e.Comment
}

func (e *PostEdited) setIntegration(id uuid.UUID) { e.IntegrationID = id }

func (e *PostEdited) personalTarget() any {
	e.Comment = new(Comment)
	return e.Comment
}

// PostWithdrawn records that a partner passed on the deletion of its comment. The personal parts of all events of the
// comment are erased in the same transaction, and no event of the comment follows.
type PostWithdrawn struct {
	IntegrationID uuid.UUID `json:"-"` // from the source of the event
}

// Type implements Event.
func (PostWithdrawn) Type() string { return "post.withdrawn.v1" }
func (PostWithdrawn) isEvent()     {}

func (e *PostWithdrawn) setIntegration(id uuid.UUID) { e.IntegrationID = id }

// PostReported records that readers of a partner have reported a comment, which may be that of another partner.
type PostReported struct {
	IntegrationID uuid.UUID `json:"-"`       // of the reporters, from the source of the event
	Reason        string    `json:"reason"`  // one of ReportReasons
	Reports       int       `json:"reports"` // number of readers

	Report *Report `json:"-"` // nil without a detail, or when erased
}

// ReportReasons are the reasons of reports, in the order of the documentation and of the columns of reported_posts.
var ReportReasons = [...]string{"spam", "abuse", "spoiler", "illegal", "copyright", "other"}

// Report is the erasable part of PostReported. It is erased with the comment, so it names the author of that.
type Report struct {
	IntegrationID uuid.UUID `json:"integrationId"` // of the comment
	ExternalUUID  string    `json:"uuid"`          // of its author
	Detail        string    `json:"detail"`
}

// Type implements Event.
func (PostReported) Type() string { return "post.reported.v1" }
func (PostReported) isEvent()     {}

func (e PostReported) personal() any {
	if e.Report == nil {
		return nil
	}
	return e.Report
}

func (e *PostReported) setIntegration(id uuid.UUID) { e.IntegrationID = id }

func (e *PostReported) personalTarget() any {
	e.Report = new(Report)
	return e.Report
}

// PostReportsDismissed records that staff found the reports of a comment before this event unfounded.
type PostReportsDismissed struct {
	Reason string `json:"reason"`
}

// Type implements Event.
func (PostReportsDismissed) Type() string { return "post.reports_dismissed.v1" }
func (PostReportsDismissed) isEvent()     {}
