package staff

import (
	"context"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"novelgate/aggregates/author"
	"novelgate/aggregates/post"
	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/database"
	"novelgate/internal/names"
)

// Post is a comment as staff see it, hidden or not.
type Post struct {
	PostID        uuid.UUID      `json:"postId"`
	ThreadID      uuid.UUID      `json:"threadId"`
	NovelID       uuid.UUID      `json:"novelId"`
	NovelTitle    string         `json:"novel"`
	IntegrationID uuid.UUID      `json:"integrationId"`
	Integration   string         `json:"integration"` // its name
	ParentPostID  *uuid.UUID     `json:"parentPostId"`
	ChapterNumber jsontext.Value `json:"chapterNumber"`
	WrittenAt     time.Time      `json:"writtenAt"`
	ReceivedAt    time.Time      `json:"receivedAt"`
	EditedAt      *time.Time     `json:"editedAt"`  // nil: never
	Withdrawn     bool           `json:"withdrawn"` // by its partner
	Reports       int            `json:"reports"`   // readers who reported it since the latest decision about it
	Content       *string        `json:"content"`   // nil, like author, after erasure
	Author        *PostAuthor    `json:"author"`
	State         post.State     `json:"state"`
	HiddenBy      *string        `json:"hiddenBy"` // post.Individually or post.WithAuthor; nil, like reason, when visible
	Reason        *string        `json:"reason"`
	History       []HistoryEntry `json:"history"`
	Omitted       int            `json:"omitted"` // older edits and reports that History leaves out
}

// PostAuthor is the author of a post.
type PostAuthor struct {
	ID           uuid.UUID `json:"authorId"`
	ExternalUUID string    `json:"uuid"`
	Username     string    `json:"username"` // on this comment
	MemberID     *string   `json:"memberId"`
	Blocked      bool      `json:"blocked"`
}

// HidePost hides a post from readers.
func (s *Staff) HidePost(ctx context.Context, id uuid.UUID, reason string) (Post, error) {
	return s.moderatePost(ctx, id, reason, hidePost)
}

// RestorePost makes a post visible again, also one that was hidden with all posts of its author.
func (s *Staff) RestorePost(ctx context.Context, id uuid.UUID, reason string) (Post, error) {
	return s.moderatePost(ctx, id, reason, restorePost)
}

// DismissReports finds the reports of a post unfounded.
func (s *Staff) DismissReports(ctx context.Context, id uuid.UUID, reason string) (Post, error) {
	return s.moderatePost(ctx, id, reason, dismissReports)
}

// postDecision decides about a post. by reads the decisions about its author.
type postDecision func(p post.Post, by func() (author.Author, error), reason string) (events.Event, error)

func hidePost(p post.Post, _ func() (author.Author, error), reason string) (events.Event, error) {
	return p.Hide(reason)
}

func restorePost(p post.Post, by func() (author.Author, error), reason string) (events.Event, error) {
	decided, err := by()
	if err != nil {
		return nil, err
	}
	return p.Restore(decided, reason)
}

func dismissReports(p post.Post, _ func() (author.Author, error), reason string) (events.Event, error) {
	return p.DismissReports(reason)
}

func (s *Staff) moderatePost(ctx context.Context, id uuid.UUID, reason string, decide postDecision) (Post, error) {
	if err := requireReason(reason); err != nil {
		return Post{}, err
	}
	err := s.execute(ctx, stream{events.PostStream, id}, func(db database.Querier) (int, []events.Event, error) {
		return decidePost(ctx, db, id, reason, decide)
	}, nil)
	if err != nil {
		return Post{}, err
	}
	return s.Post(ctx, id)
}

// decidePost executes a decision about a post in the log.
func decidePost(
	ctx context.Context, db database.Querier, id uuid.UUID, reason string, decide postDecision,
) (version int, decided []events.Event, err error) {
	history, err := eventlog.ReadStream(ctx, db, events.PostStream, id, 0)
	if err != nil {
		return 0, nil, err
	}
	p := post.Fold(history)
	if !p.Exists() {
		return 0, nil, post.ErrNotFound
	}
	by := func() (author.Author, error) {
		_, by, err := authorOf(ctx, db, p)
		return by, err
	}
	decided, err = asList(decide(p, by, reason))
	return len(history), decided, err
}

// Post finds a post; post.ErrNotFound when there is none. It reads the log, so it has no lag.
func (s *Staff) Post(ctx context.Context, id uuid.UUID) (Post, error) {
	history, err := eventlog.ReadStream(ctx, s.Pool, events.PostStream, id, 0)
	if err != nil {
		return Post{}, err
	}
	p := post.Fold(history)
	if !p.Exists() {
		return Post{}, post.ErrNotFound
	}
	authorID, by, err := authorOf(ctx, s.Pool, p)
	if err != nil {
		return Post{}, err
	}
	entries, err := historyOf(ctx, s.Pool, newestChanges(history))
	if err != nil {
		return Post{}, err
	}
	called, err := names.Of(ctx, s.Pool, p.Imported.NovelID, p.Imported.IntegrationID)
	if err != nil {
		return Post{}, err
	}
	visibility := p.Visibility(by)
	found := Post{
		PostID: id, ThreadID: p.Imported.ThreadID, NovelID: p.Imported.NovelID, IntegrationID: p.Imported.IntegrationID,
		ParentPostID: p.Imported.ParentPostID, ChapterNumber: p.Chapter(), Withdrawn: p.Withdrawn, Reports: p.Reports,
		WrittenAt: p.Imported.WrittenAt, ReceivedAt: p.ReceivedAt.UTC(), State: visibility.State, History: entries,
		Omitted:    len(history) - len(entries),
		NovelTitle: called[p.Imported.NovelID], Integration: called[p.Imported.IntegrationID],
	}
	if visibility.State == post.Hidden {
		found.HiddenBy, found.Reason = &visibility.By, &visibility.Reason
	}
	if at := p.EditedAt(); !at.IsZero() {
		found.EditedAt = &at
	}
	if comment := p.Text; comment != nil {
		found.Content = &comment.Content
		found.Author = &PostAuthor{
			ID: authorID, ExternalUUID: comment.ExternalUUID, Username: comment.Username, Blocked: by.Blocked,
		}
		if by.MemberID != "" {
			found.Author.MemberID = &by.MemberID
		}
	}
	return found, nil
}

// newestChanges returns the history of a post without edits and reports older than the newest hundred of each: partners
// may send any number of both.
func newestChanges(history []events.Recorded) []events.Recorded {
	edits, reports := 100, 100
	shown := make([]events.Recorded, 0, len(history))
	for _, recorded := range slices.Backward(history) {
		left := new(1)
		switch recorded.Event.(type) {
		case events.PostEdited:
			left = &edits
		case events.PostReported:
			left = &reports
		default: // of staff, or once in a history
		}
		if *left > 0 {
			*left--
			shown = append(shown, recorded)
		}
	}
	slices.Reverse(shown)
	return shown
}

// authorOf returns the author of a post with the staff decisions about them, or the zero Author after erasure.
func authorOf(ctx context.Context, db database.Querier, p post.Post) (id uuid.UUID, _ author.Author, err error) {
	if p.Imported.Comment == nil {
		return uuid.Nil, author.Author{}, nil
	}
	id, err = AuthorName{p.Imported.IntegrationID, p.Imported.Comment.ExternalUUID}.ID(ctx, db)
	if err != nil {
		return uuid.Nil, author.Author{}, err
	}
	history, err := eventlog.ReadStream(ctx, db, events.AuthorStream, id, 0)
	if err != nil {
		return uuid.Nil, author.Author{}, err
	}
	return id, author.Fold(events.AuthorRef{}, history), nil
}
