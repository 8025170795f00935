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
}

// Type implements Event.
func (NovelCreated) Type() string { return "novel.created.v1" }
func (NovelCreated) sealed()      {}

// NovelUpdated records what an upsert changed: a nil field stayed as it was, an empty one was cleared. An upsert
// that changed nothing is recorded too, so that its key is known.
type NovelUpdated struct {
	Author        *string   `json:"author,omitzero"`
	Synopsis      *string   `json:"synopsis,omitzero"`
	CoverURL      *string   `json:"coverUrl,omitzero"`
	Genres        *[]string `json:"genres,omitzero"`
	Language      *string   `json:"language,omitzero"`
	ReadingStatus *string   `json:"readingStatus,omitzero"`
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
