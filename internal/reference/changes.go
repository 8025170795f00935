package reference

import (
	"github.com/google/uuid"

	"novelgate/events"
)

type changeRow struct {
	IntegrationID uuid.UUID `json:"integration_id"`
	LogIndex      int64     `json:"log_index"`
	Kind          string    `json:"kind"`
}

// change folds an event into changes. Novels and posts include the event already.
func (f *Fold) change(r *events.Recorded) {
	tell := func(integration uuid.UUID, kind string) {
		f.changes = append(f.changes, changeRow{IntegrationID: integration, LogIndex: r.LogIndex, Kind: kind})
	}
	novel := func(id uuid.UUID, kind string) {
		if n := f.novels[id]; n != nil && n.CreatedBy != nil {
			tell(*n.CreatedBy, kind)
		}
	}
	comment := func(kind string) {
		if p := f.posts[r.StreamID]; p != nil {
			tell(p.IntegrationID, kind)
		}
	}
	switch e := r.Event.(type) {
	case events.NovelApproved:
		novel(r.StreamID, "novel.approved")
	case events.NovelRejected:
		novel(r.StreamID, "novel.rejected")
	case events.NovelPublished:
		novel(r.StreamID, "novel.published")
	case events.ThreadOpened:
		novel(e.NovelID, "thread.opened")
	case events.PostHidden:
		comment("comment.hidden")
	case events.PostRestored:
		comment("comment.restored")
	case events.AuthorBlocked:
		tell(e.IntegrationID, "author.blocked")
	case events.AuthorUnblocked:
		tell(e.IntegrationID, "author.unblocked")
	case events.AuthorPostsHidden:
		tell(e.IntegrationID, "author.comments_hidden")
	case events.AuthorPostsRestored:
		tell(e.IntegrationID, "author.comments_restored")
	case events.AuthorErased:
		tell(e.IntegrationID, "author.erased")
	case events.ImportCompleted:
		tell(r.StreamID, "import.completed")
	case events.KeyExpiring:
		tell(r.StreamID, "key.expiring")
	default: // not a change for partners
	}
}
