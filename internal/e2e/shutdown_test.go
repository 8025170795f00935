package e2e_test

import (
	"net/http"
	"testing"

	"novelgate/internal/testdb"
)

func TestRestartKeepsEverything(t *testing.T) {
	t.Parallel()
	database := testdb.New(t)
	s := Start(t, database)
	p := s.NewPartner(t)
	novel := p.Upsert(t, "n", everything("Restart")).WantNovel(t, 201)
	post := p.Import(t, "p", Comment("Restart")).WantPost(t, 201)
	s.Stop(t)

	p.Service = Start(t, database)
	again := p.Import(t, "p", Comment("Restart"))
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
	s := Start(t, testdb.New(t))
	s.Send(t, Request{Method: http.MethodGet, Path: "/healthz"})
	s.Stop(t)
}
