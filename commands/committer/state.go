package committer

import (
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"novelgate/aggregates/novel"
	"novelgate/aggregates/post"
	"novelgate/aggregates/thread"
	"novelgate/events"
	titles "novelgate/internal/title"
)

// state is one attempt at a batch: what was loaded, and what its own commands have added.
type state struct {
	trust

	id      uuid.UUID              // in the metadata of every event
	spent   map[window]int         // permits that it uses
	found   map[uuid.UUID]struct{} // earlier attempts whose answer was lost and that have been committed
	claimed map[ref]struct{}       // keys of those that are answered as first delivery
	sent    bool                   // the commit was sent

	news     news     // of what the lane remembers
	recalled []string // titles that were not read

	// by folded title; an unknown one has a zero novel, a free one has an identifier and a slug
	titles  map[string]*title
	used    map[ref]*used       // deliveries on record, of commands and of parents
	first   map[ref]*job        // commands of this batch that were accepted
	blocked map[uuid.UUID]bool  // authors, of those who wrote comments of this batch
	parents map[ref]post.Parent // posts of this batch, and what else is known of parents
	slugs   map[string]struct{} // taken ones among the candidates
	decided []events.Recorded   // in decision order
	senders []uuid.UUID         // the integration that each of them is of
	bytes   []int               // that each of them takes
}

func newState(jobs int) *state {
	return &state{
		id: uuid.New(), spent: map[window]int{}, found: map[uuid.UUID]struct{}{}, claimed: map[ref]struct{}{},
		titles: make(map[string]*title, jobs), used: map[ref]*used{}, first: make(map[ref]*job, jobs),
		parents: make(map[ref]post.Parent, jobs), decided: make([]events.Recorded, 0, jobs+8),
	}
}

// trust is what an attempt does not read about its comments. The zero trust reads everything.
type trust struct {
	presumed bool    // that they are first deliveries, see doubt
	memory   *memory // where the lane looks for titles and parents; nil when it may not
	unread   bool    // nothing is read, if all is presumed or remembered
}

// title is a novel and its thread.
type title struct {
	novel  novel.Novel
	thread thread.Thread
}

// used is a delivery that is on record.
type used struct {
	streamID uuid.UUID
	stored   events.Stored
	salt     uuid.NullUUID
	metadata []byte
}

func (u *used) decodeMetadata() (events.Metadata, error) {
	var m events.Metadata
	if err := json.Unmarshal(u.metadata, &m); err != nil {
		return m, fmt.Errorf("decode metadata of a delivery: %w", err)
	}
	return m, nil
}

func (u *used) post() (events.PostImported, error) {
	event, err := events.Decode(u.stored)
	if err != nil {
		return events.PostImported{}, fmt.Errorf("decode a delivery: %w", err)
	}
	imported, ok := event.(events.PostImported)
	if !ok {
		return imported, fmt.Errorf("a delivery of a comment is recorded as %s", u.stored.Type)
	}
	return imported, nil
}

// parent returns the post that was delivered under a key, the zero Parent when there is none.
func (st *state) parent(r ref) (post.Parent, error) {
	if parent, ok := st.parents[r]; ok {
		return parent, nil
	}
	u, ok := st.used[r]
	if !ok {
		return post.Parent{}, nil
	}
	imported, err := u.post()
	if err != nil {
		return post.Parent{}, err
	}
	st.parents[r] = post.Parent{PostID: u.streamID, ThreadID: imported.ThreadID}
	return st.parents[r], nil
}

// takeSlug gives a new novel its slug.
func (st *state) takeSlug(spelling string, novelID uuid.UUID) string {
	slug := novel.PickSlug(novel.SlugCandidates(titles.Slug(spelling), novelID), st.slugs)
	st.slugs[slug] = struct{}{}
	return slug
}
