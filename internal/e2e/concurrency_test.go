package e2e_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// together calls send n times at once and returns all answers.
func together(n int, send func(i int) Response) []Response {
	answers := make([]Response, n)
	start := make(chan struct{})
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			<-start
			answers[i] = send(i)
		})
	}
	close(start)
	all.Wait()
	return answers
}

// wantStatuses wants so many answers with each status, and shows an answer of every status that it did not expect.
func wantStatuses(t *testing.T, want map[int]int, answers []Response) {
	t.Helper()
	got, unexpected := map[int]int{}, ""
	for _, answer := range answers {
		if got[answer.Status]++; want[answer.Status] == 0 {
			unexpected = fmt.Sprintf("\n%s", answer.Body)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("statuses (-want +got)\n%s%s", diff, unexpected)
	}
}

func TestConcurrentDuplicatesOfAPost(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	p := s.NewPartner(t)
	known := Unique("Known")
	p.Upsert(t, Key(), Fields{"novel": known}).WantNovel(t, 201)
	for _, title := range []string{known, Unique("Unknown")} {
		key := Key()
		answers := together(16, func(int) Response { return p.Import(t, key, Comment(title)) })
		wantStatuses(t, map[int]int{201: 1, 200: 15}, answers)
		first := answers[0].WantPost(t, answers[0].Status)
		for _, answer := range answers {
			post := answer.WantPost(t, answer.Status)
			answer.WantReplayed(t, answer.Status == http.StatusOK, false)
			if post.PostID != first.PostID || post.ThreadID != first.ThreadID ||
				post.Created != (answer.Status == http.StatusCreated) {
				t.Errorf("%s: %d %+v beside %+v", title, answer.Status, post, first)
			}
		}
	}
}

func TestConcurrentUpsertsOfOneTitle(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	partners := []*Partner{s.NewPartner(t), s.NewPartner(t)}
	title := Unique("Raced")
	answers := together(16, func(i int) Response { return partners[i%2].Upsert(t, Key(), everything(title)) })
	wantStatuses(t, map[int]int{201: 1, 200: 15}, answers)
	owner := s.Novel(t, title).Owner
	novels := map[string]bool{}
	for i, answer := range answers {
		novel := answer.WantNovel(t, answer.Status)
		novels[novel.NovelID] = true
		if mine := partners[i%2].IntegrationID == owner; (novel.Created || novel.Updated) != mine {
			t.Errorf("integration %s got %+v, the owner is %s", partners[i%2].IntegrationID, novel, owner)
		}
	}
	if len(novels) != 1 {
		t.Errorf("%d novels, want 1", len(novels))
	}
}

func TestConcurrentCommentsOnOneUnknownTitle(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	partners := []*Partner{s.NewPartner(t), s.NewPartner(t)}
	title := Unique("Crowd")
	answers := together(32,
		func(i int) Response { return partners[i%2].Import(t, Key(), Comment(title)) })
	threads, posts := map[string]bool{}, map[string]bool{}
	for _, answer := range answers {
		post := answer.WantPost(t, 201)
		threads[post.ThreadID], posts[post.PostID] = true, true
	}
	if len(threads) != 1 || len(posts) != 32 {
		t.Errorf("%d threads and %d posts, want 1 and 32", len(threads), len(posts))
	}
}
