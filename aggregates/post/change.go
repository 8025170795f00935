package post

import (
	"errors"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"novelgate/events"
)

// Edit is a partner's command to change one of its comments. At least one of Content and ChapterNumber is set.
type Edit struct {
	Content       *string        // nil: unchanged
	ChapterNumber jsontext.Value // exact decimal, or null for a novel-level comment; nil: unchanged
	EditedAt      time.Time
}

// Report is a partner's command to pass on that readers have reported a comment.
type Report struct {
	Reason  string // one of events.ReportReasons
	Detail  string // "" for none
	Reports int    // number of readers, 1 or more
}

// Chapter returns the chapter of the comment; nil for a novel-level comment.
func (p Post) Chapter() jsontext.Value {
	if p.Edited.EditedAt.IsZero() {
		return p.Imported.ChapterNumber
	}
	return p.Edited.Chapter
}

// EditedAt returns when text or chapter were last edited; zero: never.
func (p Post) EditedAt() time.Time {
	if p.Edited.ChapterAt.After(p.Edited.TextAt) {
		return p.Edited.ChapterAt
	}
	return p.Edited.TextAt
}

// ownedBy returns why an integration may not change the post. The comment of another integration does not exist for it.
func (p Post) ownedBy(integrationID uuid.UUID) error {
	switch {
	case !p.Exists() || p.Imported.IntegrationID != integrationID:
		return ErrNotFound
	case p.Withdrawn:
		return ErrWithdrawn
	default:
		return nil
	}
}

// Edit decides an edit. It fails with ErrNotFound, ErrWithdrawn or ErrErased.
func (p Post) Edit(by uuid.UUID, cmd Edit) (events.PostEdited, error) {
	if err := p.ownedBy(by); err != nil {
		return events.PostEdited{}, err
	}
	if p.Imported.Comment == nil {
		return events.PostEdited{}, ErrErased
	}
	latest := p.Edited
	edited := events.PostEdited{
		IntegrationID: by, ThreadID: p.Imported.ThreadID, IsReply: p.Imported.ParentPostID != nil,
		EditedAt: cmd.EditedAt, ChapterNumber: cmd.ChapterNumber, Chapter: p.Chapter(), FormerChapter: p.Chapter(),
		TextAt: latest.TextAt, ChapterAt: latest.ChapterAt,
	}
	if cmd.Content != nil {
		comment := *p.Imported.Comment
		comment.Content = *cmd.Content
		edited.Comment = &comment
		if edited.NewText = !cmd.EditedAt.Before(latest.TextAt); edited.NewText {
			edited.TextAt = cmd.EditedAt
		}
	}
	if cmd.ChapterNumber != nil && !cmd.EditedAt.Before(latest.ChapterAt) {
		edited.NewChapter, edited.ChapterAt = true, cmd.EditedAt
		edited.Chapter = nil
		if cmd.ChapterNumber.Kind() != jsontext.KindNull {
			edited.Chapter = cmd.ChapterNumber
		}
	}
	return edited, nil
}

// Withdraw decides a withdrawal: nil for a comment that is withdrawn already. It fails with ErrNotFound.
func (p Post) Withdraw(by uuid.UUID) (events.Event, error) {
	err := p.ownedBy(by)
	switch {
	case errors.Is(err, ErrWithdrawn):
		return nil, nil
	case err != nil:
		return nil, err
	default:
		return events.PostWithdrawn{IntegrationID: by}, nil
	}
}

// Report decides a report. visible says whether readers see the comment: one of another integration must be. It fails
// with ErrNotFound, ErrWithdrawn or ErrErased.
func (p Post) Report(by uuid.UUID, visible bool, cmd Report) (events.PostReported, error) {
	switch {
	case !p.Exists() || p.Imported.IntegrationID != by && !visible:
		return events.PostReported{}, ErrNotFound
	case p.Withdrawn:
		return events.PostReported{}, ErrWithdrawn
	case p.Imported.Comment == nil:
		return events.PostReported{}, ErrErased
	}
	reported := events.PostReported{IntegrationID: by, Reason: cmd.Reason, Reports: cmd.Reports}
	if cmd.Detail != "" {
		reported.Report = &events.Report{
			IntegrationID: p.Imported.IntegrationID, ExternalUUID: p.Imported.Comment.ExternalUUID, Detail: cmd.Detail,
		}
	}
	return reported, nil
}
