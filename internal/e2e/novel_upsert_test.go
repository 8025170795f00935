package e2e_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// everything is a novel with every optional field.
func everything(title string) Fields {
	return Fields{
		"novel": title, "author": "Ida Verne", "synopsis": "A boy finds a watch.\nIt runs backwards.",
		"coverUrl": "https://cdn.example.com/1.jpg",
		"genres":   []string{"Fantasy", "Mystery"}, "language": "en", "readingStatus": "ongoing",
	}
}

// stored is what everything looks like in `novel show`.
func stored(title, owner string) StoredNovel {
	return StoredNovel{
		Novel: title, Author: "Ida Verne", Synopsis: "A boy finds a watch.\nIt runs backwards.",
		CoverURL: "https://cdn.example.com/1.jpg",
		Genres:   []string{"Fantasy", "Mystery"}, Language: "en", ReadingStatus: "ongoing", Owner: owner, State: "approved",
	}
}

func wantStored(t *testing.T, s *Service, want StoredNovel) {
	t.Helper()
	ignore := cmpopts.IgnoreFields(StoredNovel{}, "NovelID", "Slug")
	if diff := cmp.Diff(want, s.Novel(t, want.Novel), ignore, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("novel show (-want +got)\n%s", diff)
	}
}

func TestUnknownTitleCreatesTheNovel(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewPartner(t)
	title := Unique("Created")
	response := p.Upsert(t, Key(), everything(title))
	response.WantReplayed(t, false, false)
	novel := response.WantNovel(t, 201)
	if !novel.Created || novel.Updated || novel.Canonical {
		t.Errorf("answer %+v, want created alone", novel)
	}
	wantStored(t, p.Service, stored(title, p.IntegrationID))
	if shown := p.Service.Novel(t, title); shown.NovelID != novel.NovelID || shown.Slug != novel.Slug {
		t.Errorf("novel show says %s %s, the answer said %s %s", shown.NovelID, shown.Slug, novel.NovelID, novel.Slug)
	}
}

func TestOwnNovelIsUpdatedAndForeignLeftAlone(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	owner, other := s.NewPartner(t), s.NewPartner(t)
	title := Unique("Updated")
	want := owner.Upsert(t, Key(), everything(title)).WantNovel(t, 201)
	change := Fields{"novel": title, "author": nil, "language": "", "genres": []string{"Mystery", "Fantasy"}}
	changed := stored(title, owner.IntegrationID)
	changed.Language, changed.Genres = "", []string{"Mystery", "Fantasy"}
	want.Created = false
	for _, p := range []*Partner{owner, other} {
		want.Updated = p == owner
		response := p.Upsert(t, "k", change)
		response.WantReplayed(t, false, false)
		if diff := cmp.Diff(want, response.WantNovel(t, 200)); diff != "" {
			t.Errorf("answer (-want +got)\n%s", diff)
		}
		change = Fields{"novel": title, "author": "Somebody else"}
		wantStored(t, s, changed)
	}
	other.Upsert(t, "k", Fields{"novel": Unique("The key is still free")}).WantNovel(t, 201)
}

func TestCanonicalNovelIsLeftAlone(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	p := s.NewPartner(t)
	title := Unique("Canonical")
	published := s.Moderate(t, "publish", title)
	if published.Owner != "host" || published.State != "published" || published.Novel != title {
		t.Errorf("published %+v", published)
	}
	for range 2 {
		novel := p.Upsert(t, "canonical", everything(title)).WantNovel(t, 200)
		if novel.Created || novel.Updated || !novel.Canonical || novel.NovelID != published.NovelID ||
			novel.Slug != published.Slug {
			t.Errorf("answer %+v, want canonical alone and novel %s", novel, published.NovelID)
		}
	}
	if diff := cmp.Diff(published, s.Novel(t, title), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("the novel has changed (-before +after)\n%s", diff)
	}
	p.Upsert(t, "canonical", Fields{"novel": Unique("The key is still free")}).WantNovel(t, 201)
}
