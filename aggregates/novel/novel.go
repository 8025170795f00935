// Package novel decides on the creation, the update and the moderation of a novel.
package novel

import (
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"novelgate/events"
)

// State is the state of a novel in moderation and publication.
type State string

// States and their transitions: pending → approved | rejected, approved ↔ rejected, pending | approved → published. A
// title without a novel, unknown or free, becomes rejected (barred), and a barred one free. An import or a publication
// of a free title creates its novel.
const (
	Pending   State = "pending"   // waits for staff; only from integrations under review
	Approved  State = "approved"  // a partner's novel, approved by staff or without review
	Published State = "published" // the host platform's novel: canonical
	Rejected  State = "rejected"  // declined by staff; cannot be imported (again)
	Free      State = "free"      // no novel: staff approved a barred title
)

// DefaultAuthor is the author of a novel that is created without one (SPEC 2.1).
const DefaultAuthor = "Unknown"

// ErrRejected refuses an import of a title that staff rejected.
var ErrRejected = errors.New("staff of the host platform declined this title")

// TransitionError refuses a move that the states do not allow.
type TransitionError struct{ From, To State }

func (e *TransitionError) Error() string {
	if e.From == e.To {
		return fmt.Sprintf("the novel is %s already", e.To)
	}
	return fmt.Sprintf("a novel that is %s cannot become %s", e.From, e.To)
}

// Novel is the state for decisions. The zero Novel does not exist yet.
type Novel struct {
	ID      uuid.UUID
	Title   string
	Slug    string // fixed by the first event of the title
	State   State
	OwnerID *uuid.UUID // the owning integration; nil: the host platform, or none
	Version int        // of its stream; 0: no events
	Details Details
}

// Details are the fields that an upsert may change.
type Details struct {
	Author        string   `json:"author"`
	Synopsis      string   `json:"synopsis,omitempty"`
	CoverURL      string   `json:"coverUrl,omitempty"`
	Genres        []string `json:"genres,omitempty"`
	Language      string   `json:"language,omitempty"`
	ReadingStatus string   `json:"readingStatus,omitempty"`
}

// Fields are the details in a command. nil: not supplied.
type Fields struct {
	Author, Synopsis, CoverURL, Language, ReadingStatus *string
	Genres                                              *[]string
}

// Exists reports whether the title has a novel or is barred. If not, the next import creates the novel.
func (n Novel) Exists() bool { return n.Version > 0 && n.State != Free }

// Barred reports whether staff rejected the title before its first import. Novels of the host platform have no owner
// either, but are never rejected.
func (n Novel) Barred() bool { return n.State == Rejected && n.OwnerID == nil }

// Open reports whether comments may be imported. Only published and approved novels match a comment (SPEC 2.5).
func (n Novel) Open() bool { return n.State == Published || n.State == Approved }

// Apply returns the novel after one more event of its stream.
func (n Novel) Apply(event events.Event) Novel {
	n.Version++
	switch e := event.(type) {
	case events.NovelCreated:
		n.Title, n.Slug, n.State, n.OwnerID = e.Title, e.Slug, State(e.State), e.OwnerID
		n.Details = Details{e.Author, e.Synopsis, e.CoverURL, e.Genres, e.Language, e.ReadingStatus}
	case events.NovelUpdated:
		n.Details = n.Details.with(Fields{e.Author, e.Synopsis, e.CoverURL, e.Language, e.ReadingStatus, e.Genres})
	case events.NovelPublished:
		n.State, n.OwnerID = Published, nil
	case events.NovelApproved:
		n.State = Approved
	case events.NovelRejected:
		n.State = Rejected
	case events.NovelBarred:
		n.Title, n.Slug, n.State, n.OwnerID = e.Title, e.Slug, Rejected, nil
	case events.NovelUnbarred:
		n.State = Free
	default: // changes only the version
	}
	return n
}

// with returns the details after an upsert of the supplied fields.
func (d Details) with(f Fields) Details {
	set := func(field, value *string) {
		if value != nil {
			*field = *value
		}
	}
	set(&d.Author, f.Author)
	set(&d.Synopsis, f.Synopsis)
	set(&d.CoverURL, f.CoverURL)
	set(&d.Language, f.Language)
	set(&d.ReadingStatus, f.ReadingStatus)
	if f.Genres != nil {
		d.Genres = slices.Clone(*f.Genres)
	}
	return d
}

// changed returns the supplied fields that differ from the details.
func (d Details) changed(f Fields) events.NovelUpdated {
	diff := func(current string, value *string) *string {
		if value == nil || *value == current {
			return nil
		}
		return value
	}
	update := events.NovelUpdated{
		Author:        diff(d.Author, f.Author),
		Synopsis:      diff(d.Synopsis, f.Synopsis),
		CoverURL:      diff(d.CoverURL, f.CoverURL),
		Language:      diff(d.Language, f.Language),
		ReadingStatus: diff(d.ReadingStatus, f.ReadingStatus),
	}
	if f.Genres != nil && !slices.Equal(*f.Genres, d.Genres) {
		update.Genres = f.Genres
	}
	return update
}
