package committer_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"novelgate/aggregates/novel"
	"novelgate/aggregates/post"
	"novelgate/commands/committer"
	"novelgate/commands/staff"
	"novelgate/internal/testdb"
)

// model is SPEC section 3 and docs/decisions/0005-interface.md in plain maps.
type model struct {
	novels  map[string]*modelNovel // by folded title
	upserts map[string]modelUpsert // by integration and key
	posts   map[string]modelPost   // by integration and key
	left    map[uuid.UUID]int      // creations
	threads map[string]uuid.UUID   // by folded title
}

type modelNovel struct {
	id    uuid.UUID
	slug  string
	state novel.State
	owner uuid.UUID // uuid.Nil: the host platform
}

type modelUpsert struct {
	folded    string
	canonical string
}

type modelPost struct {
	id, thread uuid.UUID
	parent     *uuid.UUID
	canonical  string
}

func reference(p partner, key string) string { return p.IntegrationID.String() + "/" + key }

// create brings a novel into being if the limit allows it.
func (m *model) create(p partner, folded string) error {
	if m.left[p.IntegrationID] == 0 {
		return errLimited
	}
	m.left[p.IntegrationID]--
	state := novel.Approved
	if p.UnderReview {
		state = novel.Pending
	}
	m.novels[folded] = &modelNovel{state: state, owner: p.IntegrationID}
	return nil
}

var errLimited = errors.New("limited")

// gone reports whether no novel has the title: it is unknown, or free again.
func (n *modelNovel) gone() bool { return n == nil || n.state == novel.Free }

// standing is the outcome of an upsert of an existing novel.
func (n *modelNovel) standing(p partner) (novel.Outcome, error) {
	switch {
	case n.state == novel.Rejected:
		return 0, novel.ErrRejected
	case n.state == novel.Published:
		return novel.Canonical, nil
	case n.owner == p.IntegrationID:
		return novel.Updated, nil
	default:
		return novel.Foreign, nil
	}
}

// upsert says what an upsert is answered with, identifiers apart.
func (m *model) upsert(p partner, cmd *committer.UpsertNovel) (want committer.NovelResult, err error) {
	n := m.novels[cmd.FoldedTitle]
	if used, ok := m.upserts[reference(p, cmd.Key)]; ok {
		if used.folded != cmd.FoldedTitle {
			return want, committer.ErrKeyMisused
		}
		want.Replayed, want.Mismatch = true, used.canonical != string(cmd.Canonical)
		want.Outcome, err = n.standing(p)
		return want, err
	}
	if n.gone() {
		if err := m.create(p, cmd.FoldedTitle); err != nil {
			return want, err
		}
		want.Outcome = novel.Created
	} else if want.Outcome, err = n.standing(p); err != nil || want.Outcome != novel.Updated {
		return want, err
	}
	m.upserts[reference(p, cmd.Key)] = modelUpsert{cmd.FoldedTitle, string(cmd.Canonical)}
	return want, nil
}

// post says what a comment is answered with, apart from identifiers that are new.
func (m *model) post(p partner, cmd *committer.ImportPost) (want committer.PostResult, err error) {
	if used, ok := m.posts[reference(p, cmd.Key)]; ok {
		return committer.PostResult{
			PostID: used.id, ThreadID: used.thread, ParentPostID: used.parent, Replayed: true,
			Mismatch: used.canonical != string(cmd.Canonical),
		}, nil
	}
	n := m.novels[cmd.FoldedTitle]
	if n.gone() {
		if !p.MayCreateNovels || p.UnderReview {
			return want, post.ErrNovelNotFound
		}
		if err := m.create(p, cmd.FoldedTitle); err != nil {
			return want, err
		}
	} else if n.state != novel.Approved && n.state != novel.Published {
		return want, post.ErrNovelNotFound
	}
	if cmd.ParentKey != nil {
		parent, ok := m.posts[reference(p, *cmd.ParentKey)]
		if thread, open := m.threads[cmd.FoldedTitle]; ok && open && parent.thread == thread {
			want.ParentPostID = &parent.id
		}
	}
	return want, nil
}

// moderate says whether staff may take a step, and takes it.
func (m *model) moderate(step, folded string) bool {
	n := m.novels[folded]
	switch {
	case n.gone() && step == "publish":
		m.novels[folded] = &modelNovel{state: novel.Published}
	case n.gone() && step == "reject":
		m.novels[folded] = &modelNovel{state: novel.Rejected}
	case n.gone():
		return false
	case step == "approve" && n.state == novel.Rejected && n.owner == uuid.Nil:
		n.state = novel.Free
	case step == "publish" && n.state != novel.Rejected && n.state != novel.Published:
		n.state, n.owner = novel.Published, uuid.Nil
	case step == "approve" && (n.state == novel.Pending || n.state == novel.Rejected):
		n.state = novel.Approved
	case step == "reject" && (n.state == novel.Pending || n.state == novel.Approved):
		n.state = novel.Rejected
	default:
		return false
	}
	return true
}

// TestModel compares two replicas, used in turn at random, with the model. Staff intervene.
func TestModel(t *testing.T) {
	t.Parallel()
	url := testdb.New(t)
	pool := direct(t, url)
	limits := &purse{}
	limiting := func(c *committer.Config) { c.Permits = limits }
	replicas := []*replica{newReplica(t, url, limiting), newReplica(t, url, limiting)}
	moderators := newStaff(pool)
	rapid.Check(t, func(t *rapid.T) {
		// Integrations and titles of its own let each run share the database.
		run := uuid.NewString()
		partners := []partner{newPartner(), newPartner(), newPartner(), newPartner()}
		partners[2].MayCreateNovels = false
		partners[3].UnderReview = true
		m := &model{
			novels: map[string]*modelNovel{}, upserts: map[string]modelUpsert{}, posts: map[string]modelPost{},
			left: map[uuid.UUID]int{}, threads: map[string]uuid.UUID{},
		}
		for _, p := range partners {
			m.left[p.IntegrationID] = rapid.IntRange(0, 3).Draw(t, "creations")
			limits.limit(p.IntegrationID, m.left[p.IntegrationID])
		}
		partner := rapid.SampledFrom(partners)
		key := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"})
		titles := rapid.Map(rapid.SampledFrom([]string{"Red Moon ", "RED  moon ", "Red, moon ", "Straße ", "STRASSE "}),
			func(s string) string { return s + run })
		replica := rapid.SampledFrom(replicas)

		t.Repeat(map[string]func(*rapid.T){
			"upsert": func(t *rapid.T) {
				p := partner.Draw(t, "partner")
				if !p.MayCreateNovels {
					t.Skip("the capability is missing")
				}
				cmd := p.novel(key.Draw(t, "key"), titles.Draw(t, "title"),
					novel.Fields{Author: ptr(rapid.SampledFrom([]string{"X", "Y"}).Draw(t, "author"))})
				want, wantErr := m.upsert(p, cmd)
				got, err := replica.Draw(t, "replica").UpsertNovel(context.Background(), cmd)
				if !same(err, wantErr) {
					t.Fatalf("error %v, want %v", err, wantErr)
				}
				if err != nil {
					return
				}
				n := m.novels[cmd.FoldedTitle]
				n.check(t, got.NovelID, got.Slug)
				want.NovelID, want.Slug, want.Original = n.id, n.slug, got.Original
				if got != want {
					t.Fatalf("answer %+v, want %+v", got, want)
				}
			},
			"post": func(t *rapid.T) {
				p := partner.Draw(t, "partner")
				cmd := p.post(key.Draw(t, "key"), titles.Draw(t, "title"))
				if rapid.Bool().Draw(t, "reply") {
					cmd.ParentKey = ptr(key.Draw(t, "parent"))
				}
				want, wantErr := m.post(p, cmd)
				got, err := replica.Draw(t, "replica").ImportPost(context.Background(), cmd)
				if !same(err, wantErr) {
					t.Fatalf("error %v, want %v", err, wantErr)
				}
				if err != nil {
					return
				}
				if !want.Replayed {
					want.PostID, want.ThreadID = got.PostID, got.ThreadID
					if thread, ok := m.threads[cmd.FoldedTitle]; ok {
						want.ThreadID = thread
					}
					m.threads[cmd.FoldedTitle] = want.ThreadID
					m.novels[cmd.FoldedTitle].check(t, uuid.Nil, got.NovelSlug)
					m.posts[reference(p, cmd.Key)] = modelPost{want.PostID, want.ThreadID, want.ParentPostID, string(cmd.Canonical)}
				}
				if got.PostID != want.PostID || got.ThreadID != want.ThreadID || !equal(got.ParentPostID, want.ParentPostID) ||
					got.Replayed != want.Replayed || got.Mismatch != want.Mismatch {
					t.Fatalf("answer %+v, want %+v", got, want)
				}
			},
			"moderate": func(t *rapid.T) {
				step, spelling := rapid.SampledFrom([]string{"publish", "approve", "reject"}).Draw(t, "step"),
					titles.Draw(t, "title")
				take := map[string]moderation{
					"publish": publish(spelling), "approve": approve(spelling), "reject": reject(spelling),
				}[step]
				want := m.moderate(step, fold(spelling))
				var refused *novel.TransitionError
				if err := take(moderators); (err == nil) != want ||
					err != nil && !errors.As(err, &refused) && !errors.Is(err, staff.ErrNovelNotFound) {
					t.Fatalf("%s: %v, want success: %v", step, err, want)
				}
			},
			"": func(t *rapid.T) {
				for _, p := range partners {
					if got := limits.leftOf(p.IntegrationID); got != m.left[p.IntegrationID] {
						t.Fatalf("%d creations left, want %d", got, m.left[p.IntegrationID])
					}
				}
			},
		})
	})
	checkTruth(t, pool)
}

// check compares identifiers with those of the first answer.
func (n *modelNovel) check(t *rapid.T, id uuid.UUID, slug string) {
	if n.slug == "" {
		n.slug = slug
	}
	if n.id == uuid.Nil {
		n.id = id
	}
	if n.slug != slug || id != uuid.Nil && n.id != id {
		t.Fatalf("novel %s %q, before it was %s %q", id, slug, n.id, n.slug)
	}
}

func same(got, want error) bool {
	var tooMany *committer.RateLimitedError
	if errors.Is(want, errLimited) {
		return errors.As(got, &tooMany)
	}
	return errors.Is(got, want)
}
