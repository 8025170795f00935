package committer

import (
	"bytes"
	"errors"
	"time"

	"github.com/google/uuid"

	"novelgate/aggregates/author"
	"novelgate/aggregates/novel"
	"novelgate/aggregates/post"
	"novelgate/commands/ratelimit"
	"novelgate/events"
	titles "novelgate/internal/title"
	"novelgate/internal/web"
)

// decide decides jobs one after another. Each sees the effects of the earlier ones on the state. A refusal is stored in
// the err of its job; an error of decide ends the attempt.
func (b *batch) decide(st *state, jobs []*job) error {
	for _, j := range jobs {
		err := b.charge(st, j)
		switch {
		case err != nil:
		case j.isComment():
			j.result, err = b.decidePost(st, j)
		case j.isChange():
			j.result, err = b.decideChange(st, j)
		default:
			j.result, err = b.decideNovel(st, j)
		}
		if err != nil && !isRefusal(err) {
			return err
		}
		j.err = err
	}
	return nil
}

// charge takes the permit that the job needs whatever is decided.
func (b *batch) charge(st *state, j *job) error {
	if d, ok := st.deliveries[j.key]; ok && b.isOwn(j, d) {
		return nil // a lost attempt has stored the permit together with the event
	}
	return st.spend(j, j.request())
}

// isRefusal reports whether err answers a single command; any other error ends the attempt.
func isRefusal(err error) bool {
	var limited *RateLimitedError
	return errors.Is(err, novel.ErrRejected) || errors.Is(err, post.ErrNovelNotFound) ||
		errors.Is(err, post.ErrNotFound) || errors.Is(err, post.ErrWithdrawn) || errors.Is(err, post.ErrErased) ||
		errors.Is(err, author.ErrBlocked) || errors.Is(err, ErrKeyMisused) || errors.Is(err, ErrParentUnknown) ||
		errors.As(err, &limited)
}

// claimTitle sets the identifier of a new novel, and returns a slug for it that no other novel has. A free title, which
// was barred before, keeps both.
func (st *state) claimTitle(j *job, n *novel.Novel) (slug string) {
	if n.Slug != "" {
		return n.Slug
	}
	n.ID = events.NovelID(j.FoldedTitle)
	slug = novel.PickSlug(novel.SlugCandidates(titles.Slug(j.Title), n.ID), st.slugs)
	st.slugs[slug] = struct{}{}
	return slug
}

// isOwn reports whether an earlier attempt of this batch, whose answer was lost, has recorded d for j. Other jobs with
// the same key are retries.
func (b *batch) isOwn(j *job, d *delivery) bool { return b.lost[d.batch][j.key] == j }

// append adds the event of a job to the events of the attempt.
func (st *state) append(
	j *job, streamType string, streamID uuid.UUID, version int, source string, event events.Event,
) {
	salt := uuid.New()
	metadata := events.Metadata{
		Actor: events.IntegrationActor(j.Caller.IntegrationID), KeyID: j.Caller.KeyID,
		RequestID: j.Caller.RequestID, TraceParent: j.Caller.TraceParent,
	}
	if source == j.key.source {
		metadata.Fingerprint = events.FingerprintOf(salt, j.Canonical)
	} else {
		metadata.Causation = j.key.source
	}
	st.senders = append(st.senders, j.Caller.IntegrationID)
	st.decided = append(st.decided, events.Recorded{
		StreamType: streamType, StreamID: streamID, StreamVersion: version, ID: j.key.id, Source: source,
		Event: event, Salt: uuid.NullUUID{UUID: salt, Valid: true}, Metadata: metadata,
	})
}

func (b *batch) decideNovel(st *state, j *job) (Result, error) {
	if d, ok := st.deliveries[j.key]; ok {
		return b.replayNovel(st, j, d)
	}
	if first, ok := st.first[j.key]; ok {
		return repeatNovel(st, j, first)
	}
	n := &st.titles[j.FoldedTitle].novel
	cmd := novel.Upsert{
		IntegrationID: j.Caller.IntegrationID, Review: j.Caller.Review, Title: j.Title, Fields: *j.Fields,
	}
	if !n.Exists() {
		if err := st.spend(j, ratelimit.Novels); err != nil {
			return Result{}, err
		}
		cmd.Slug = st.claimTitle(j, n)
	}
	outcome, event, err := n.Upsert(cmd)
	if err != nil {
		return Result{}, err
	}
	if event != nil {
		*n = n.Apply(event)
		st.append(j, events.NovelStream, n.ID, n.Version, j.key.source, event)
		st.first[j.key] = j
	}
	return Result{Outcome: outcome, NovelID: n.ID, Slug: n.Slug}, nil
}

// replayNovel answers a retry of a recorded delivery with the current state of the novel. It changes nothing, so a late
// retry never reverts newer data.
func (b *batch) replayNovel(st *state, j *job, d *delivery) (Result, error) {
	n := st.titles[j.FoldedTitle].novel
	if !n.Exists() || n.ID != d.streamID {
		return Result{}, ErrKeyMisused
	}
	result := Result{NovelID: n.ID, Slug: n.Slug}
	if b.isOwn(j, d) {
		result.Outcome = novel.Updated
		if d.stored.Type == (events.NovelCreated{}).Type() {
			result.Outcome = novel.Created
		}
		return result, nil
	}
	result.Replayed, result.Mismatch = true, d.fingerprint.Differs(d.salt, j.Canonical)
	result.Original = d.original
	var err error
	result.Outcome, err = n.OutcomeFor(j.Caller.IntegrationID)
	return result, err
}

// repeatNovel answers a retry in the same batch as its original.
func repeatNovel(st *state, j, first *job) (Result, error) {
	if j.FoldedTitle != first.FoldedTitle {
		return Result{}, ErrKeyMisused
	}
	n := st.titles[j.FoldedTitle].novel
	return Result{
		Outcome: novel.Updated, NovelID: n.ID, Slug: n.Slug,
		Replayed: true, Mismatch: !bytes.Equal(j.Canonical, first.Canonical),
	}, nil
}

func (b *batch) decidePost(st *state, j *job) (Result, error) {
	if d, ok := st.deliveries[j.key]; ok {
		st.retried = true
		return b.replayPost(j, d)
	}
	if first, ok := st.first[j.key]; ok {
		result := first.result
		result.Replayed, result.Mismatch = true, !bytes.Equal(j.Canonical, first.Canonical)
		return result, nil
	}
	// Before the novel, because the comment of a blocked author must not create one.
	if err := (author.Author{Blocked: st.blocked[j.author]}).Comment(); err != nil {
		return Result{}, err
	}
	t := st.titles[j.FoldedTitle]
	if !t.novel.Exists() && !j.mayCreate() {
		if j.Caller.CanCreateNovels {
			return Result{}, ErrUnderReview
		}
		return Result{}, post.ErrNovelNotFound
	}
	var parent post.Parent
	if parentKey, ok := j.parentKey(); ok {
		var err error
		if parent, err = st.parent(parentKey); err != nil {
			return Result{}, err
		}
		if j.Comment.AwaitParent && parent == (post.Parent{}) {
			return Result{}, ErrParentUnknown
		}
	}
	// After all refusals above, because a refused comment must not create a novel.
	if !t.novel.Exists() {
		if err := st.createForPost(j, t); err != nil {
			return Result{}, err
		}
	}
	imported, opens, err := j.Comment.Into(t.novel, t.threadID, parent)
	if err != nil {
		return Result{}, err
	}
	t.threadID = imported.ThreadID
	if opens {
		st.append(j, events.ThreadStream, t.threadID, 1, events.PostThreadSource(j.Caller.IntegrationID),
			events.ThreadOpened{NovelID: t.novel.ID})
	}
	postID := events.PostID(j.Caller.IntegrationID, j.key.id)
	st.append(j, events.PostStream, postID, 1, j.key.source, imported)
	st.first[j.key] = j
	st.parents[j.key] = post.Parent{PostID: postID, ThreadID: t.threadID}
	if c := st.comments[postID]; c != nil { // a later command of the batch changes it
		c.Post, c.slug = c.Apply(imported, time.Time{}), t.novel.Slug
	}
	return Result{
		PostID: postID, ThreadID: t.threadID, ParentPostID: imported.ParentPostID, Slug: t.novel.Slug,
	}, nil
}

// createForPost creates the novel of a comment on an unknown title.
func (st *state) createForPost(j *job, t *title) error {
	if err := st.spend(j, ratelimit.Novels); err != nil {
		return err
	}
	slug := st.claimTitle(j, &t.novel)
	_, created, err := t.novel.Upsert(novel.Upsert{IntegrationID: j.Caller.IntegrationID, Title: j.Title, Slug: slug})
	if err != nil {
		return err
	}
	t.novel = t.novel.Apply(created)
	st.append(j, events.NovelStream, t.novel.ID, t.novel.Version, events.PostNovelSource(j.Caller.IntegrationID),
		created)
	return nil
}

// replayPost answers a retry of a recorded delivery with its original identifiers, also after later changes.
func (b *batch) replayPost(j *job, d *delivery) (Result, error) {
	imported, err := d.post()
	if err != nil {
		return Result{}, err
	}
	result := Result{
		PostID: d.streamID, ThreadID: imported.ThreadID, ParentPostID: imported.ParentPostID, Slug: d.novelSlug,
	}
	if !b.isOwn(j, d) {
		result.Replayed, result.Mismatch = true, d.fingerprint.Differs(d.salt, j.Canonical)
		result.Original = d.original
	}
	return result, nil
}

// parentKey returns the key of the job's parent. It returns false without a parent, and for a text that cannot be an
// idempotency key.
func (j *job) parentKey() (deliveryKey, bool) {
	if j.Comment == nil || j.Comment.ParentKey == nil {
		return deliveryKey{}, false
	}
	key := *j.Comment.ParentKey
	return deliveryKey{key, j.key.source}, key != "" && len(key) <= web.MaxKey
}
