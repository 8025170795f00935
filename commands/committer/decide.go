package committer

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"novelgate/aggregates/author"
	"novelgate/aggregates/novel"
	"novelgate/aggregates/post"
	"novelgate/commands/ratelimit"
	"novelgate/events"
)

// decide takes jobs one after another on the state, each seeing the effects of those before it. A refusal is the
// result of its job; the error that decide returns ends the attempt.
func (r *run) decide(ctx context.Context, st *state, jobs []*job) error {
	if err := r.recognise(st, jobs); err != nil {
		return err
	}
	for _, j := range jobs {
		var err error
		if j.novel != nil {
			j.novelResult, err = r.decideNovel(ctx, st, j)
		} else {
			j.postResult, err = r.decidePost(ctx, st, j)
		}
		if err != nil && !isRefusal(err) {
			return err
		}
		j.err = err
	}
	return nil
}

// isRefusal reports whether err is an answer to a command rather than trouble on the way.
func isRefusal(err error) bool {
	var limited *RateLimitedError
	return errors.Is(err, novel.ErrRejected) || errors.Is(err, post.ErrNovelNotFound) ||
		errors.Is(err, author.ErrBlocked) || errors.Is(err, ErrKeyMisused) || errors.As(err, &limited) ||
		errors.Is(err, ErrUnavailable) // the limiter is
}

// claimTitle readies a title for the creation of its novel: it mints the identifier and takes a slug. A title that is
// free again has kept both.
func (st *state) claimTitle(j *job, n *novel.Novel) (slug string) {
	if n.Slug != "" {
		return n.Slug
	}
	n.ID = events.NovelID(j.folded)
	return st.takeSlug(j.title, n.ID)
}

// spend uses one of the caller's permits, if the operation is limited.
func (r *run) spend(ctx context.Context, st *state, caller *Caller, operation ratelimit.Operation) error {
	w, limit, ok := caller.limited(operation)
	if !ok {
		return nil
	}
	if err := r.permits.spend(ctx, w, limit); err != nil {
		return err
	}
	st.spent[w]++
	return nil
}

// recognise finds out which earlier attempts, whose answers were lost, have been committed after all, and charges
// the permits that they used before anything else is decided.
func (r *run) recognise(st *state, jobs []*job) error {
	if len(r.unsure) == 0 {
		return nil
	}
	for _, j := range jobs {
		u, ok := st.used[j.ref]
		if !ok {
			continue
		}
		recorded, err := u.decodeMetadata()
		if err != nil {
			return err
		}
		spent, unsure := r.unsure[recorded.Batch]
		if _, known := st.found[recorded.Batch]; !unsure || known {
			continue
		}
		st.found[recorded.Batch] = struct{}{}
		for w, n := range r.permits.charge(spent) {
			st.spent[w] += n
		}
	}
	return nil
}

// own reports whether a delivery on record was written by an earlier attempt at this very batch, whose answer was
// lost. The first job with the key then is the delivery itself, any other its retry.
func (r *run) own(st *state, j *job, recorded events.Metadata) bool {
	if _, ok := r.unsure[recorded.Batch]; !ok {
		return false
	}
	_, answered := r.answered[j.ref]
	_, claimed := st.claimed[j.ref]
	if answered || claimed {
		return false
	}
	st.claimed[j.ref] = struct{}{}
	return true
}

// differs reports whether a retry is another command than the one on record. After erasure nothing is left to
// compare with.
func differs(j *job, u *used, recorded events.Metadata) bool {
	return events.Differs(recorded, u.salt, j.canonical)
}

// append adds an event that a job makes to what will be written.
func (r *run) append(
	st *state, j *job, streamType string, streamID uuid.UUID, version int, source string, event events.Event,
) {
	salt := uuid.New()
	metadata := events.Metadata{
		Actor: "integration:" + j.caller.IntegrationID.String(), KeyID: j.caller.KeyID.String(),
		RequestID: j.caller.RequestID,
		Batch:     st.id, TraceParent: j.caller.TraceParent,
	}
	if source == j.ref.source {
		metadata.Fingerprint = events.Fingerprint(salt, j.canonical)
	} else {
		metadata.Causation = j.ref.source
	}
	st.senders = append(st.senders, j.caller.IntegrationID)
	st.decided = append(st.decided, events.Recorded{
		StreamType: streamType, StreamID: streamID, StreamVersion: version, ID: j.ref.id, Source: source,
		Event: event, Salt: uuid.NullUUID{UUID: salt, Valid: true}, Metadata: metadata,
	})
}
