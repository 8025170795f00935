package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"novelgate/internal/testdb"
)

func TestAddressesOfNovelsAndPosts(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	p := s.NewPartner(t)
	title := Unique("Où est le Çhat?")
	response := p.Upsert(t, Key(), Fields{"novel": title})
	novel := response.WantNovel(t, 201)
	if want := s.URL + "/novels/" + novel.Slug; novel.URL != want || response.Header.Get("Location") != want {
		t.Errorf("url %s, Location %s, want %s", novel.URL, response.Header.Get("Location"), want)
	}
	if !strings.HasPrefix(novel.Slug, "ou-est-le-chat") {
		t.Errorf("slug %q does not come from the title", novel.Slug)
	}
	imported := p.Import(t, Key(), Comment(title))
	wantAddress(t, s.URL, novel.Slug, imported.WantPost(t, 201))
	if location := imported.Header.Get("Location"); location != imported.WantPost(t, 201).URL {
		t.Errorf("Location %s, want the url of the body", location)
	}
}

func TestPublicURL(t *testing.T) {
	t.Parallel()
	const public = "https://example.org:8443/catalogue"
	s := Start(t, testdb.New(t), "--public-url", public+"/")
	p := s.NewPartner(t)
	novel := p.Upsert(t, Key(), Fields{"novel": "Public"}).WantNovel(t, 201)
	if want := public + "/novels/" + novel.Slug; novel.URL != want {
		t.Errorf("url %s, want %s", novel.URL, want)
	}
	wantAddress(t, public, novel.Slug, p.Import(t, Key(), Comment("Public")).WantPost(t, 201))
}

func wantAddress(t *testing.T, public, slug string, post Post) {
	t.Helper()
	if want := fmt.Sprintf("%s/novels/%s/discussion?post=%s#post-%s", public, slug, post.PostID,
		post.PostID); post.URL != want {
		t.Errorf("url of the post %s, want %s", post.URL, want)
	}
}
