package committer

import (
	"context"

	"novelgate/aggregates/novel"
	"novelgate/commands/ratelimit"
	"novelgate/events"
)

func (r *run) decideNovel(ctx context.Context, st *state, j *job) (NovelResult, error) {
	if u, ok := st.used[j.ref]; ok {
		return r.replayNovel(st, j, u)
	}
	if first, ok := st.first[j.ref]; ok {
		return repeatNovel(st, j, first)
	}
	n := &st.titles[j.folded].novel
	cmd := novel.Upsert{
		IntegrationID: j.caller.IntegrationID, Review: j.caller.UnderReview, Title: j.title, Fields: j.novel.Fields,
	}
	if !n.Exists() {
		if err := r.spend(ctx, st, j.caller, ratelimit.Novels); err != nil {
			return NovelResult{}, err
		}
		cmd.Slug = st.claimTitle(j, n)
	}
	outcome, event, err := n.Upsert(cmd)
	if err != nil {
		return NovelResult{}, err
	}
	if outcome == novel.Updated {
		if err := r.spend(ctx, st, j.caller, ratelimit.NovelUpdates); err != nil {
			return NovelResult{}, err
		}
	}
	if event != nil {
		*n = n.Apply(event)
		r.append(st, j, events.NovelStream, n.ID, n.Version, j.ref.source, event)
		st.first[j.ref] = j
	}
	return NovelResult{Outcome: outcome, NovelID: n.ID, Slug: n.Slug}, nil
}

// replayNovel answers a delivery that is on record. It applies nothing, so that a late retry never reverts newer
// data, and reports how the novel stands today.
func (r *run) replayNovel(st *state, j *job, u *used) (NovelResult, error) {
	n := st.titles[j.folded].novel
	if !n.Exists() || n.ID != u.streamID {
		return NovelResult{}, ErrKeyMisused
	}
	recorded, err := u.decodeMetadata()
	if err != nil {
		return NovelResult{}, err
	}
	result := NovelResult{NovelID: n.ID, Slug: n.Slug}
	if r.own(st, j, recorded) {
		result.Outcome = novel.Updated
		if u.stored.Type == (events.NovelCreated{}).Type() {
			result.Outcome = novel.Created
		}
		return result, nil
	}
	result.Replayed, result.Mismatch = true, differs(j, u, recorded)
	result.Outcome, err = n.Standing(j.caller.IntegrationID)
	return result, err
}

// repeatNovel answers a retry that came in together with its original.
func repeatNovel(st *state, j, first *job) (NovelResult, error) {
	if j.folded != first.folded {
		return NovelResult{}, ErrKeyMisused
	}
	n := st.titles[j.folded].novel
	return NovelResult{
		Outcome: novel.Updated, NovelID: n.ID, Slug: n.Slug,
		Replayed: true, Mismatch: string(j.canonical) != string(first.canonical),
	}, nil
}
