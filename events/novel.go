package events

import "github.com/google/uuid"

// NovelCreated records a new novel, created by a partner or by the host platform.
type NovelCreated struct {
	Title         string     `json:"title"` // as first spelled; never changes
	Slug          string     `json:"slug"`  // never changes
	Author        string     `json:"author"`
	Synopsis      string     `json:"synopsis,omitempty"`
	CoverURL      string     `json:"coverUrl,omitempty"`
	Genres        []string   `json:"genres,omitempty"`
	Language      string     `json:"language,omitempty"`
	ReadingStatus string     `json:"readingStatus,omitempty"`
	OwnerID       *uuid.UUID `json:"ownerId,omitzero"` // the owning integration; nil: the host platform
	State         string     `json:"state"`            // "approved", "published" or "pending"
	Reason        string     `json:"reason,omitempty"` // of staff who published it; "" from a partner
}

// Type implements Event.
func (NovelCreated) Type() string { return "novel.created.v1" }
func (NovelCreated) isEvent()     {}

// NovelUpdated records the fields that an upsert, a publication or an edit by staff changed: a nil field is unchanged,
// an empty one was cleared. An upsert without changes is recorded too, so that a retry of its key is recognised.
type NovelUpdated struct {
	Author        *string   `json:"author,omitzero"`
	Synopsis      *string   `json:"synopsis,omitzero"`
	CoverURL      *string   `json:"coverUrl,omitzero"`
	Genres        *[]string `json:"genres,omitzero"`
	Language      *string   `json:"language,omitzero"`
	ReadingStatus *string   `json:"readingStatus,omitzero"`
	Reason        string    `json:"reason,omitempty"` // of staff who edited it; otherwise ""
}

// Type implements Event.
func (NovelUpdated) Type() string { return "novel.updated.v1" }
func (NovelUpdated) isEvent()     {}

// NovelPublished records that the host platform took over a partner's novel, which is canonical from then on.
type NovelPublished struct {
	Reason string `json:"reason,omitempty"`
}

// Type implements Event.
func (NovelPublished) Type() string { return "novel.published.v1" }
func (NovelPublished) isEvent()     {}

// NovelApproved records that staff approved a pending or rejected novel.
type NovelApproved struct {
	Reason string `json:"reason"`
}

// Type implements Event.
func (NovelApproved) Type() string { return "novel.approved.v1" }
func (NovelApproved) isEvent()     {}

// NovelRejected records that staff rejected a novel. Its title cannot be imported until staff approve it.
type NovelRejected struct {
	Reason string `json:"reason"`
}

// Type implements Event.
func (NovelRejected) Type() string { return "novel.rejected.v1" }
func (NovelRejected) isEvent()     {}

// NovelBarred records that staff rejected a title before its first import. Partners cannot create the novel.
type NovelBarred struct {
	Title  string `json:"title"` // as staff spelled it
	Slug   string `json:"slug"`  // reserved for a later novel with this title
	Reason string `json:"reason"`
}

// Type implements Event.
func (NovelBarred) Type() string { return "novel.barred.v1" }
func (NovelBarred) isEvent()     {}

// NovelUnbarred records that staff approved a barred title. The next import creates the novel.
type NovelUnbarred struct {
	Reason string `json:"reason"`
}

// Type implements Event.
func (NovelUnbarred) Type() string { return "novel.unbarred.v1" }
func (NovelUnbarred) isEvent()     {}
