package reference

import (
	"github.com/google/uuid"

	"novelgate/events"
	"novelgate/internal/title"
)

type titleRow struct {
	FoldedTitle   string         `json:"folded_title"`
	NovelID       uuid.UUID      `json:"novel_id"`
	Slug          string         `json:"slug"`
	Title         string         `json:"title"`
	State         string         `json:"state"`
	OwnerID       *uuid.UUID     `json:"owner_id"`
	StreamVersion int            `json:"stream_version"`
	Details       map[string]any `json:"details"`
}

type novelRow struct {
	NovelID       uuid.UUID  `json:"novel_id"`
	Title         string     `json:"title"`
	Slug          string     `json:"slug"`
	Author        string     `json:"author"`
	Synopsis      string     `json:"synopsis"`
	CoverURL      string     `json:"cover_url"`
	Genres        []string   `json:"genres"`
	Language      string     `json:"language"`
	ReadingStatus string     `json:"reading_status"`
	State         string     `json:"state"`
	OwnerID       *uuid.UUID `json:"owner_id"`
	CreatedBy     *uuid.UUID `json:"created_by"`
	CreatedAt     *moment    `json:"created_at"`
	UpdatedAt     *moment    `json:"updated_at"`
	Updates       int        `json:"updates"`
	ModeratedAt   *moment    `json:"moderated_at"`
	Moderations   int        `json:"moderations"`
	StreamVersion int        `json:"stream_version"`
}

type threadRow struct {
	NovelID  uuid.UUID `json:"novel_id"`
	ThreadID uuid.UUID `json:"thread_id"`
}

// title folds an event of a novel into title_lookup, which also has titles without a novel.
func (f *Fold) title(r *events.Recorded) {
	t := rowOf(f.titles, r.StreamID, titleRow{NovelID: r.StreamID, Details: map[string]any{}})
	t.StreamVersion = r.StreamVersion
	setTitle := func(name, slug, state string) {
		t.Title, t.State, t.FoldedTitle = name, state, title.Fold(name)
		if t.Slug == "" {
			t.Slug = slug
		}
	}
	switch e := r.Event.(type) {
	case events.NovelBarred:
		setTitle(e.Title, e.Slug, "rejected")
	case events.NovelUnbarred:
		t.State = "free"
	case events.NovelCreated:
		setTitle(e.Title, e.Slug, e.State)
		t.OwnerID = e.OwnerID
		t.Details = map[string]any{
			"author": e.Author, "synopsis": e.Synopsis, "coverUrl": e.CoverURL, "genres": e.Genres, "language": e.Language,
			"readingStatus": e.ReadingStatus,
		}
	case events.NovelUpdated:
		for member, text := range map[string]*string{
			"author": e.Author, "synopsis": e.Synopsis, "coverUrl": e.CoverURL, "language": e.Language,
			"readingStatus": e.ReadingStatus,
		} {
			if text != nil {
				t.Details[member] = *text
			}
		}
		if e.Genres != nil {
			t.Details["genres"] = *e.Genres
		}
	case events.NovelPublished:
		t.State, t.OwnerID = "published", nil
	case events.NovelApproved:
		t.State = "approved"
	case events.NovelRejected:
		t.State = "rejected"
	default: // Add passes only events of novels
	}
}

// novel folds an event of a novel into novels.
func (f *Fold) novel(r *events.Recorded) {
	if e, ok := r.Event.(events.NovelCreated); ok {
		f.novels[r.StreamID] = &novelRow{
			NovelID: r.StreamID, Title: e.Title, Slug: e.Slug, Author: e.Author, Synopsis: e.Synopsis, CoverURL: e.CoverURL,
			Genres: e.Genres, Language: e.Language, ReadingStatus: e.ReadingStatus, State: e.State, OwnerID: e.OwnerID,
			CreatedBy: e.OwnerID, CreatedAt: at(r.RecordedAt), StreamVersion: r.StreamVersion,
		}
		return
	}
	n := f.novels[r.StreamID]
	if n == nil {
		return // a title without a novel
	}
	n.StreamVersion = r.StreamVersion
	moderate := func(state string) { n.State, n.ModeratedAt, n.Moderations = state, at(r.RecordedAt), n.Moderations+1 }
	switch e := r.Event.(type) {
	case events.NovelUpdated:
		for _, change := range []struct{ from, to *string }{
			{e.Author, &n.Author},
			{e.Synopsis, &n.Synopsis},
			{e.CoverURL, &n.CoverURL},
			{e.Language, &n.Language},
			{e.ReadingStatus, &n.ReadingStatus},
		} {
			if change.from != nil {
				*change.to = *change.from
			}
		}
		if e.Genres != nil {
			n.Genres = *e.Genres
		}
		n.UpdatedAt, n.Updates = at(r.RecordedAt), n.Updates+1
	case events.NovelPublished:
		moderate("published")
		n.OwnerID = nil
	case events.NovelApproved:
		moderate("approved")
	case events.NovelRejected:
		moderate("rejected")
	default: // changes only the version
	}
}
