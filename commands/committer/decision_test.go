package committer_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"novelgate/aggregates/novel"
	"novelgate/commands/committer"
	"novelgate/commands/staff"
)

// world has the partners of the table below.
type world struct {
	a, b     partner // may create novels
	poster   partner // may not create novels
	reviewed partner // is under review
}

func newWorld() world {
	w := world{newPartner(), newPartner(), newPartner(), newPartner()}
	w.poster.CanCreateNovels = false
	w.reviewed.Review = true
	return w
}

// moderation is a step that staff take.
type moderation func(*staff.Staff) error

func publish(spelling string) moderation {
	return func(s *staff.Staff) error {
		_, err := s.PublishNovel(context.Background(), spelling, novel.Fields{}, "")
		return err
	}
}

func approve(spelling string) moderation {
	return func(s *staff.Staff) error {
		_, err := s.ApproveNovel(context.Background(), spelling, "reason")
		return err
	}
}

func reject(spelling string) moderation {
	return func(s *staff.Staff) error {
		_, err := s.RejectNovel(context.Background(), spelling, "reason")
		return err
	}
}

const (
	notFound       = "error: no published or approved novel matches the title"
	declined       = notFound + ": staff rejected the title"
	pending        = notFound + ": the novel is pending"
	underReview    = notFound + ": the integration is under review"
	rejected       = "error: staff of the host platform declined this title"
	rejectedReplay = "error: staff of the host platform declined this title"
	misused        = "error: the idempotency key was used for another title or comment"
	blocked        = "error: staff of the host platform blocked this author"
	unknownParent  = "error: the parent of the reply is not on record"
)

// limitedTo is the refusal of a creation beyond a limit.
func limitedTo(n int) string {
	return fmt.Sprintf("error: the limit of %d novel creations per minute is reached", n)
}

// TestDecisions executes the given steps, and then the commands of when: one by one and, in another database, as one
// batch. Answers and charged permits must be the same.
func TestDecisions(t *testing.T) {
	t.Parallel()
	w, x := newWorld(), novel.Fields{Author: new("X")}
	again := w.a
	again.RequestID = "another request"
	await := func(key, spelling, parent string) *committer.Command {
		command := w.a.reply(key, spelling, parent)
		command.Comment.AwaitParent = true
		return command
	}
	for name, tc := range map[string]struct {
		given   []any
		when    batch
		then    []string
		limit   int // creations of each integration per minute; 0: no limit
		charged int
		check   func(t *testing.T, answers []answer)
	}{
		"create, update, foreign": {
			when: batch{
				w.a.novel("1", "Title", x), w.a.novel("2", " tITLE ", x), w.b.novel("1", "title", x), w.b.novel("1", "title", x),
			},
			then: []string{"created", "updated", "foreign", "foreign"}, charged: 1,
		},
		"canonical": {
			given: []any{publish("Title")},
			when:  batch{w.a.novel("1", "Title", x), w.a.post("1", "title"), w.poster.post("1", "TITLE")},
			then:  []string{"canonical", "post", "post"},
		},
		"adopted by the host": {
			given: []any{w.a.novel("1", "Title", x), publish("Title")},
			when:  batch{w.a.novel("1", "Title", x), w.a.novel("2", "Title", x), w.b.novel("1", "Title", x)},
			then:  []string{"canonical replayed", "canonical", "canonical"}, charged: 1,
		},
		"rejected, also for the owner": {
			given: []any{w.a.post("p", "Title"), w.a.novel("1", "Title", x), reject("Title")},
			when: batch{
				w.a.novel("1", "Title", x), w.a.novel("2", "Title", x), w.b.novel("1", "Title", x),
				w.a.post("new", "Title"), w.poster.post("new", "Title"), w.a.post("p", "Title"), w.a.novel("1", "Other", x),
			},
			then: []string{rejectedReplay, rejected, rejected, declined, declined, "post replayed", misused}, charged: 1,
		},
		"rejected and approved again": {
			given: []any{w.a.novel("1", "Title", x), reject("Title"), approve("Title")},
			when:  batch{w.a.novel("1", "Title", x), w.b.post("1", "Title")},
			then:  []string{"updated replayed", "post"}, charged: 1,
		},
		"rejected before its first import": {
			given: []any{reject("Title")},
			when: batch{
				w.a.novel("1", " tITLE ", x), w.a.post("1", "Title"), w.poster.post("1", "Title"),
				w.reviewed.novel("1", "Title", x), w.a.novel("1", "Other", x),
			},
			then: []string{rejected, declined, declined, rejected, "created"}, charged: 1,
		},
		"free again": {
			given: []any{reject("Title"), approve("Title")},
			when: batch{
				w.poster.post("1", "Title"), w.reviewed.post("1", "Title"), w.a.novel("1", "tITLE", x), w.a.novel("2", "Title", x),
				w.b.novel("1", "Title", x), w.a.novel("1", "Title", x),
				w.poster.post("1", "Title"),
			},
			then: []string{notFound, underReview, "created", "updated", "foreign", "updated replayed", "post"}, charged: 1,
		},
		"free again, and a comment creates it": {
			given: []any{reject("Title"), approve("Title"), reject("title"), approve("Title")},
			when:  batch{w.a.post("1", "Title"), w.a.novel("1", "Title", x), w.b.post("1", "Title")},
			then:  []string{"post", "updated", "post"}, charged: 1,
		},
		"free again, under review": {
			given: []any{reject("Title"), approve("Title")},
			when:  batch{w.reviewed.novel("1", "Title", x), w.a.post("1", "Title"), w.a.novel("1", "Title", x)},
			then:  []string{"created", pending, "foreign"}, charged: 1,
		},
		"free again, beyond the limit": {
			given: []any{reject("Title"), approve("Title")},
			when:  batch{w.a.novel("1", "Other", x), w.a.novel("2", "Title", x), w.a.post("1", "Title")},
			then:  []string{"created", limitedTo(1), limitedTo(1)}, limit: 1, charged: 1,
		},
		"free again, then published": {
			given: []any{reject("Title"), approve("Title"), publish("TITLE")},
			when:  batch{w.a.novel("1", "Title", x), w.poster.post("1", "Title")},
			then:  []string{"canonical", "post"},
		},
		"review mode": {
			when: batch{
				w.reviewed.post("1", "Title"), w.reviewed.novel("1", "Title", x), w.reviewed.novel("2", "Title", x),
				w.reviewed.post("1", "Title"), w.a.post("1", "Title"), w.a.novel("1", "Title", x),
			},
			then: []string{underReview, "created", "updated", pending, pending, "foreign"}, charged: 1,
		},
		"review mode, approved": {
			given: []any{w.reviewed.novel("1", "Title", x), approve("Title")},
			when:  batch{w.reviewed.post("1", "Title"), w.a.post("1", "Title")},
			then:  []string{"post", "post"}, charged: 1,
		},
		"comments on an unknown title": {
			when: batch{
				w.poster.post("1", "Title"), w.a.post("1", "Title"), w.poster.post("1", "Title"), w.a.novel("1", "Title", x),
				w.b.novel("1", "Title", x),
			},
			then: []string{notFound, "post", "post", "updated", "foreign"}, charged: 1,
		},
		"replays": {
			given: []any{w.a.novel("n", "Title", x), w.a.post("p", "Title")},
			when: batch{
				again.novel("n", "Title", x), w.a.novel("n", "Title", novel.Fields{Author: new("Y")}), w.a.novel("n", "Other", x),
				w.a.novel("n", "Unknown", x),
				again.post("p", "Title"), w.a.post("p", "Unknown"), w.b.post("p", "Title"), w.a.novel("p", "Title", x),
			},
			then: []string{
				"updated replayed", "updated replayed mismatch", misused, misused,
				"post replayed", "post replayed mismatch", "post", "updated",
			}, charged: 1,
			check: func(t *testing.T, answers []answer) {
				t.Helper()
				want := []committer.Original{{"request", "novel.created.v1"}, {"request", "post.imported.v1"}}
				if diff := cmp.Diff(want, []committer.Original{answers[0].Original, answers[4].Original}); diff != "" {
					t.Errorf("originals (-want +got):\n%s", diff)
				}
			},
		},
		"duplicates in a batch": {
			when: batch{
				w.a.novel("n", "Title", x), w.a.novel("n", "Title", x), w.a.novel("n", "title", novel.Fields{}),
				w.a.novel("n", "Other", x),
				w.a.post("p", "Title"), w.a.post("p", "Title"), w.a.post("p", "Other"), w.a.post("n", "Other"),
			},
			then: []string{
				"created", "updated replayed", "updated replayed mismatch", misused,
				"post", "post replayed", "post replayed mismatch", "post",
			}, charged: 2,
		},
		"a refused command does not burn its key": {
			when: batch{
				w.poster.post("1", "Title"), w.a.novel("1", "Title", x), w.poster.post("1", "Title"), w.poster.post("1", "Title"),
			},
			then: []string{notFound, "created", "post", "post replayed"}, charged: 1,
		},
		"parents": {
			given: []any{w.a.post("old", "Title"), w.a.post("elsewhere", "Other"), w.b.post("theirs", "Title")},
			when: batch{
				w.a.reply("1", "Title", "old"), w.a.reply("2", "Title", "1"), w.a.reply("3", "Title", "elsewhere"),
				w.a.reply("4", "Title", "theirs"),
				w.a.reply("5", "Title", "5"), w.a.reply("6", "Title", "7"), w.a.reply("7", "Title", ""),
				w.a.reply("8", "Title", "no such \x7f key"),
				w.a.reply("9", "Other", "1"), w.a.reply("1", "Title", "2"),
			},
			then: []string{
				"post threaded", "post threaded", "post", "post", "post", "post", "post", "post", "post", "post replayed threaded",
			}, charged: 2,
		},
		"replies that await their parents": { // and create nothing before
			given: []any{w.a.post("b", "Title")},
			when: batch{
				await("a", "New", "later"), await("c", "Title", "b"), await("d", "Title", "e"), w.a.post("e", "Title"),
				await("f", "Title", "e"), await("d", "Title", "e"), await("c", "Title", "x"), w.a.post("a", "New"),
			},
			then: []string{
				unknownParent, "post threaded", unknownParent, "post", "post threaded", "post threaded",
				"post replayed threaded", "post",
			}, charged: 2,
		},
		"blocked authors": { // new comments only, and before anything is created or the novel is looked at
			given: []any{
				w.a.postBy("troll", "before", "Title"), blocking{w.a, "troll"}, blocking{w.poster, "troll"},
			},
			when: batch{
				w.a.postBy("troll", "1", "Title"), w.a.postBy("reader", "2", "Title"), w.b.postBy("troll", "3", "Title"),
				w.a.postBy("troll", "before", "Title"), w.a.postBy("troll", "4", "Unknown"),
				w.poster.postBy("troll", "5", "Unknown"), w.a.postBy("troll", "6", "Title"),
			},
			then: []string{blocked, "post", "post", "post replayed", blocked, blocked, blocked}, charged: 1,
		},
		"titles with one slug": {
			given: []any{w.a.novel("0", "One: two", x)},
			when: batch{
				w.a.novel("1", "One, two", x), w.b.novel("1", "One two", x), w.a.novel("2", "!!!", x), w.a.novel("3", "???", x),
				w.a.post("4", "One-two"), w.a.novel("5", "Three: four", x), w.b.novel("5", "Three, four", x),
			},
			then: []string{"created", "created", "created", "created", "post", "created", "created"}, charged: 8,
			check: func(t *testing.T, answers []answer) {
				t.Helper()
				seen := map[string]bool{"one-two": true}
				for i, a := range answers {
					slug := a.Slug + a.Slug
					if slug == "" || seen[slug] {
						t.Errorf("command %d: slug %q", i, slug)
					}
					seen[slug] = true
				}
			},
		},
		"fewer creations than asked for": {
			limit: 2,
			when: batch{
				w.a.novel("1", "One", x), w.a.novel("2", "One", x), w.a.post("3", "Two"), w.a.novel("4", "Three", x),
				w.a.post("5", "Three"),
				w.a.novel("1", "One", x), w.a.post("6", "One"), w.poster.post("7", "Three"),
			},
			then: []string{
				"created", "updated", "post", limitedTo(2), limitedTo(2), "updated replayed", "post", notFound,
			}, charged: 2,
		},
		"no creation left": {
			limit: 1,
			given: []any{w.a.novel("1", "One", x)},
			when: batch{
				w.a.novel("1", "One", x), w.a.novel("2", "One", x), w.b.novel("3", "One", x), w.a.novel("1", "Two", x),
				w.a.novel("4", "Two", x),
			},
			then: []string{"updated replayed", "updated", "foreign", misused, limitedTo(1)}, charged: 1,
		},
	} {
		for _, mode := range []string{"one by one", "together"} {
			t.Run(name+"/"+mode, func(t *testing.T) {
				t.Parallel()
				r, _ := setup(t)
				for _, step := range tc.given {
					take(t, r, newStaff(r.db), step)
				}
				when := slices.Clone(tc.when)
				if tc.limit > 0 {
					for i, command := range when {
						limited := *command
						limited.Caller.NovelsPerMinute, when[i] = tc.limit, &limited
					}
				}
				var answers []answer
				if mode == "together" {
					answers = r.together(t, when...)
				} else {
					for _, command := range when {
						answers = append(answers, r.submit(t.Context(), command))
					}
				}
				wantAnswers(t, answers, tc.then...)
				if tc.check != nil {
					tc.check(t, answers)
				}
				if n := r.bisections(t); n != 0 {
					t.Errorf("%d batches were cut", n)
				}
				checkTruth(t, r.db)
				r.wantCharged(t, tc.charged)
			})
		}
	}
}

// blocking is the decision of staff to block an author.
type blocking struct {
	partner  partner
	external string
}

// take executes one given step.
func take(t *testing.T, r *replica, s *staff.Staff, step any) {
	t.Helper()
	var err error
	switch step := step.(type) {
	case blocking:
		block(t, r.db, step.partner, step.external)
	case moderation:
		err = step(s)
	case *committer.Command:
		err = r.submit(t.Context(), step).err
	}
	if err != nil {
		t.Fatalf("given %+v: %v", step, err)
	}
}
