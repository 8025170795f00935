package blackbox_test

import (
	"net/http"
	"sync"
	"testing"

	"novelgate/internal/blackbox"
	"novelgate/internal/testdb"
)

// TestEverythingAcceptedIsAnswered sends SIGTERM in the middle of a stream of comments. Afterwards a second service
// tells, by replays, which of them are stored: those must be exactly the ones that were answered with 201. Start's
// cleanup wants exit code 0.
func TestEverythingAcceptedIsAnswered(t *testing.T) {
	t.Parallel()
	const senders, before = 16, 200 // answers before the signal
	database := testdb.New(t)
	s := blackbox.Start(t, database)
	p := s.NewPartner(t)
	p.Upsert(t, blackbox.Key(), blackbox.Fields{"novel": "Drained"}).WantNovel(t, 201)

	var (
		mu       sync.Mutex
		statuses = map[string]int{} // by key; 0 for no answer
		answered = make(chan struct{}, 1<<16)
		all      sync.WaitGroup
	)
	for range senders {
		all.Go(func() {
			for {
				key := blackbox.Key()
				request := p.Request(blackbox.PostsPath, key, blackbox.Comment("Drained").JSON(t))
				// A new connection each time: on an idle one a request can cross the server's goodbye, and nobody can tell
				// then whether it was accepted.
				request.Header = http.Header{"Connection": {"close"}}
				response, err := s.TrySend(t, request)
				mu.Lock()
				statuses[key] = response.Status
				mu.Unlock()
				if err != nil || response.Status == http.StatusServiceUnavailable {
					return
				}
				answered <- struct{}{}
			}
		})
	}
	for range before {
		<-answered
	}
	s.Terminate(t)
	all.Wait()
	s.Stop(t)

	next := blackbox.Start(t, database)
	stored := &blackbox.Partner{NewIntegration: p.NewIntegration, Service: next}
	created := 0
	for key, status := range statuses {
		switch replay := stored.Import(t, key, blackbox.Comment("Drained")); status {
		case http.StatusCreated:
			created++
			replay.WantPost(t, 200)
		case 0, http.StatusServiceUnavailable:
			if replay.Status != http.StatusCreated {
				t.Errorf("a comment answered with %d is stored: accepted but not answered", status)
			}
		default:
			t.Errorf("status %d during the drain, want 201 or 503", status)
		}
	}
	if created < before {
		t.Errorf("%d comments were created, want at least %d", created, before)
	}
}

func TestRestartKeepsEverything(t *testing.T) {
	t.Parallel()
	database := testdb.New(t)
	s := blackbox.Start(t, database)
	p := s.NewPartner(t)
	novel := p.Upsert(t, "n", everything("Restart")).WantNovel(t, 201)
	post := p.Import(t, "p", blackbox.Comment("Restart")).WantPost(t, 201)
	s.Stop(t)

	p.Service = blackbox.Start(t, database)
	again := p.Import(t, "p", blackbox.Comment("Restart"))
	again.WantReplayed(t, true, false)
	if got := again.WantPost(t, 200); got.PostID != post.PostID || got.ThreadID != post.ThreadID {
		t.Errorf("post %+v, want %+v", got, post)
	}
	if got := p.Upsert(t, "n", everything("RESTART")).WantNovel(t, 200); got.NovelID != novel.NovelID ||
		got.Slug != novel.Slug {
		t.Errorf("novel %+v, want %+v", got, novel)
	}
	wantStored(t, p.Service, stored("Restart", p.IntegrationID))
}

func TestIdleServiceStopsAtOnce(t *testing.T) {
	t.Parallel()
	s := blackbox.Start(t, testdb.New(t))
	s.Send(t, blackbox.Request{Method: http.MethodGet, Path: "/healthz"})
	s.Stop(t)
}
