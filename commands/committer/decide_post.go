package committer

import (
	"context"

	"novelgate/aggregates/author"
	"novelgate/aggregates/novel"
	"novelgate/aggregates/post"
	"novelgate/aggregates/thread"
	"novelgate/commands/ratelimit"
	"novelgate/commands/request"
	"novelgate/events"
)

func (r *run) decidePost(ctx context.Context, st *state, j *job) (PostResult, error) {
	if u, ok := st.used[j.ref]; ok {
		return r.replayPost(st, j, u)
	}
	if first, ok := st.first[j.ref]; ok {
		result := first.postResult
		result.Replayed, result.Mismatch = true, string(j.canonical) != string(first.canonical)
		return result, nil
	}
	// Before the novel is looked at: a blocked author creates nothing.
	if err := (author.Author{Blocked: st.blocked[j.author]}).Comment(); err != nil {
		return PostResult{}, err
	}
	t := st.titles[j.folded]
	if !t.novel.Exists() {
		if !j.mayCreate() {
			return PostResult{}, post.ErrNovelNotFound
		}
		if err := r.createForPost(ctx, st, j, t); err != nil {
			return PostResult{}, err
		}
	}
	var parent post.Parent
	if parentRef, ok := j.parentRef(); ok {
		var err error
		if parent, err = st.parent(parentRef); err != nil {
			return PostResult{}, err
		}
	}
	threadID := t.thread.ID
	if !t.thread.Exists() {
		threadID = events.ThreadID(t.novel.ID)
	}
	imported, err := j.post.Import.In(t.novel, threadID, parent)
	if err != nil {
		return PostResult{}, err
	}
	for _, opened := range t.thread.Open(t.novel.ID) {
		r.append(st, j, events.ThreadStream, threadID, 1, events.PostThreadSource(j.caller.IntegrationID), opened)
	}
	t.thread = thread.Thread{ID: threadID}

	postID := events.PostID(j.caller.IntegrationID, j.ref.id)
	r.append(st, j, events.PostStream, postID, 1, j.ref.source, imported)
	st.first[j.ref] = j
	st.parents[j.ref] = post.Parent{PostID: postID, ThreadID: threadID}
	return PostResult{PostID: postID, ThreadID: threadID, ParentPostID: imported.ParentPostID, NovelSlug: t.novel.Slug},
		nil
}

// createForPost brings the novel of a comment on an unknown title into being.
func (r *run) createForPost(ctx context.Context, st *state, j *job, t *title) error {
	if err := r.spend(ctx, st, j.caller, ratelimit.Novels); err != nil {
		return err
	}
	slug := st.claimTitle(j, &t.novel)
	_, created, err := t.novel.Upsert(novel.Upsert{IntegrationID: j.caller.IntegrationID, Title: j.title, Slug: slug})
	if err != nil {
		return err
	}
	t.novel = t.novel.Apply(created)
	r.append(st, j, events.NovelStream, t.novel.ID, t.novel.Version, events.PostNovelSource(j.caller.IntegrationID),
		created)
	return nil
}

// replayPost answers a delivery that is on record with its original identifiers, whatever has happened since.
func (r *run) replayPost(st *state, j *job, u *used) (PostResult, error) {
	imported, err := u.post()
	if err != nil {
		return PostResult{}, err
	}
	recorded, err := u.decodeMetadata()
	if err != nil {
		return PostResult{}, err
	}
	result := PostResult{
		PostID: u.streamID, ThreadID: imported.ThreadID, ParentPostID: imported.ParentPostID, NovelSlug: imported.NovelSlug,
	}
	if !r.own(st, j, recorded) {
		result.Replayed, result.Mismatch = true, differs(j, u, recorded)
	}
	return result, nil
}

// parentRef returns the delivery that the job names as its parent. A string that no delivery can have had as its
// key matches nothing.
func (j *job) parentRef() (ref, bool) {
	if j.post == nil || j.post.ParentKey == nil || *j.post.ParentKey == "" || len(*j.post.ParentKey) > request.MaxKey {
		return ref{}, false
	}
	return ref{*j.post.ParentKey, j.ref.source}, true
}
