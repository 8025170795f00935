package events

import "github.com/google/uuid"

// NovelCreated records that a novel entered the catalogue, from a partner or from the host platform itself.
type NovelCreated struct {
	Title         string     `json:"title"` // as first spelled; never changes
	Slug          string     `json:"slug"`  // never changes
	Author        string     `json:"author"`
	Synopsis      string     `json:"synopsis,omitempty"`
	CoverURL      string     `json:"coverUrl,omitempty"`
	Genres        []string   `json:"genres,omitempty"`
	Language      string     `json:"language,omitempty"`
	ReadingStatus string     `json:"readingStatus,omitempty"`
	OwnerID       *uuid.UUID `json:"ownerId,omitzero"` // the owning integration; nil when the host platform owns it
	State         string     `json:"state"`            // "approved", "published" or "pending"
	Reason        string     `json:"reason,omitempty"` // of staff who published it; "" from a partner
}

// Type implements Event.
func (NovelCreated) Type() string { return "novel.created.v1" }
func (NovelCreated) sealed()      {}

// NovelUpdated records what an upsert or an edit by staff changed: a nil field stayed as it was, an empty one was
// cleared. An upsert that changed nothing is recorded too, so that its key is known.
type NovelUpdated struct {
	Author        *string   `json:"author,omitzero"`
	Synopsis      *string   `json:"synopsis,omitzero"`
	CoverURL      *string   `json:"coverUrl,omitzero"`
	Genres        *[]string `json:"genres,omitzero"`
	Language      *string   `json:"language,omitzero"`
	ReadingStatus *string   `json:"readingStatus,omitzero"`
	Reason        string    `json:"reason,omitempty"` // of staff who edited it; "" from a partner
}

// Type implements Event.
func (NovelUpdated) Type() string { return "novel.updated.v1" }
func (NovelUpdated) sealed()      {}

// NovelPublished records that the host platform made a partner's novel its own: canonical from now on.
type NovelPublished struct {
	Reason string `json:"reason,omitempty"`
}

// Type implements Event.
func (NovelPublished) Type() string { return "novel.published.v1" }
func (NovelPublished) sealed()      {}

// NovelApproved records that staff approved a pending or rejected novel.
type NovelApproved struct {
	Reason string `json:"reason"`
}

// Type implements Event.
func (NovelApproved) Type() string { return "novel.approved.v1" }
func (NovelApproved) sealed()      {}

// NovelRejected records that staff declined a novel; its title cannot be imported again.
type NovelRejected struct {
	Reason string `json:"reason"`
}

// Type implements Event.
func (NovelRejected) Type() string { return "novel.rejected.v1" }
func (NovelRejected) sealed()      {}

// NovelBarred records that staff declined a title that nobody has imported: there is no novel, and no partner can
// create it.
type NovelBarred struct {
	Title  string `json:"title"` // as staff spelled it
	Slug   string `json:"slug"`  // kept for the novel, should it ever come into being
	Reason string `json:"reason"`
}

// Type implements Event.
func (NovelBarred) Type() string { return "novel.barred.v1" }
func (NovelBarred) sealed()      {}

// NovelUnbarred records that staff lifted the bar on a title: it is free, as if it had never been heard of.
type NovelUnbarred struct {
	Reason string `json:"reason"`
}

// Type implements Event.
func (NovelUnbarred) Type() string { return "novel.unbarred.v1" }
func (NovelUnbarred) sealed()      {}
