package reference

import (
	"github.com/google/uuid"

	"novelgate/events"
)

// Fold is what the log comes to so far. The zero Fold is not ready: see New.
type Fold struct {
	titles       map[uuid.UUID]*titleRow
	novels       map[uuid.UUID]*novelRow
	threads      map[uuid.UUID]*threadRow // by thread
	posts        map[uuid.UUID]*postRow
	authors      map[uuid.UUID]*authorRow
	decisions    map[uuid.UUID]*decisionRow
	integrations map[uuid.UUID]*integrationRow
	keys         map[uuid.UUID]*keyRow
	persons      map[uuid.UUID]*personKeyRow
	activity     activity
}

// New returns the fold of an empty log.
func New() *Fold {
	return &Fold{
		titles: map[uuid.UUID]*titleRow{}, novels: map[uuid.UUID]*novelRow{}, threads: map[uuid.UUID]*threadRow{},
		posts:   map[uuid.UUID]*postRow{},
		authors: map[uuid.UUID]*authorRow{}, decisions: map[uuid.UUID]*decisionRow{},
		integrations: map[uuid.UUID]*integrationRow{},
		keys:         map[uuid.UUID]*keyRow{}, persons: map[uuid.UUID]*personKeyRow{}, activity: newActivity(),
	}
}

// Of folds a whole log.
func Of(log []events.Recorded) *Fold {
	f := New()
	for i := range log {
		f.Add(&log[i])
	}
	return f
}

// Add folds the next event of the log.
func (f *Fold) Add(r *events.Recorded) {
	switch e := r.Event.(type) {
	case events.NovelCreated, events.NovelUpdated, events.NovelPublished, events.NovelApproved, events.NovelRejected,
		events.NovelBarred, events.NovelUnbarred:
		f.title(r)
		f.novel(r)
		f.activity.novel(r)
	case events.ThreadOpened:
		f.threads[r.StreamID] = &threadRow{NovelID: e.NovelID, ThreadID: r.StreamID}
	case events.PostImported:
		f.post(r, e)
		f.author(r, e)
		f.activity.post(r, e)
	case events.PostHidden:
		f.moderate(r, true)
	case events.PostRestored:
		f.moderate(r, false)
	case events.AuthorLinked, events.AuthorUnlinked, events.AuthorBlocked, events.AuthorUnblocked,
		events.AuthorPostsHidden, events.AuthorPostsRestored:
		f.decide(r)
	case events.AuthorErased:
		f.decide(r)
		f.erase(r)
	case events.PersonKeyIssued, events.PersonKeyRevoked:
		f.person(r)
	case events.ProjectionEventSkipped: // about a projection
	default: // all others are about an integration
		f.integration(r)
	}
}

// erase forgets an author in all that was imported before.
func (f *Fold) erase(r *events.Recorded) {
	for _, p := range f.posts {
		if p.AuthorID != nil && *p.AuthorID == r.StreamID {
			p.AuthorID, p.ContentBytes = nil, nil
		}
	}
	delete(f.authors, r.StreamID)
}

// Tables returns the rows of every table, by its name.
func (f *Fold) Tables() (map[string]Rows, error) {
	var w writer
	writeAll(&w, "title_lookup", f.titles)
	writeAll(&w, "novels", f.novels)
	writeAll(&w, "threads", f.threads)
	writeAll(&w, "posts", f.posts)
	writeAll(&w, "authors", f.authors)
	writeAll(&w, "author_decisions", f.decisions)
	writeAll(&w, "integrations", f.integrations)
	writeAll(&w, "api_keys", f.keys)
	writeAll(&w, "person_keys", f.persons)
	f.activity.write(&w)
	return w.done()
}
