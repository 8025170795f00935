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

func TestTitleAloneIsEnough(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewPartner(t)
	title := Unique("Alone")
	p.Upsert(t, Key(), Fields{"novel": title}).WantNovel(t, 201)
	wantStored(t, p.Service,
		StoredNovel{Novel: title, Author: "Unknown", Owner: p.IntegrationID, State: "approved"})
}

func TestOwnNovelAbsorbsTheFields(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	for name, test := range map[string]struct {
		fields Fields
		change func(*StoredNovel)
	}{
		"nothing but the title": {Fields{}, func(*StoredNovel) {}},
		"one field":             {Fields{"author": "Jules"}, func(n *StoredNovel) { n.Author = "Jules" }},
		"null is omitted": {
			Fields{
				"author": nil, "synopsis": nil, "coverUrl": nil, "genres": nil, "language": nil, "readingStatus": nil,
			},
			func(*StoredNovel) {},
		},
		"an empty string clears": {
			Fields{"synopsis": "", "language": ""},
			func(n *StoredNovel) { n.Synopsis, n.Language = "", "" },
		},
		"genres are replaced": {
			Fields{"genres": []string{"Horror"}}, func(n *StoredNovel) { n.Genres = []string{"Horror"} },
		},
		"genres keep their order": {
			Fields{"genres": []string{"Mystery", "Fantasy", "Adventure"}},
			func(n *StoredNovel) { n.Genres = []string{"Mystery", "Fantasy", "Adventure"} },
		},
		"an empty list clears": {Fields{"genres": []string{}}, func(n *StoredNovel) { n.Genres = nil }},
		"everything": {
			Fields{
				"author": "B", "synopsis": "C", "coverUrl": "https://cdn.example.com/2.jpg", "genres": []string{"D"},
				"language": "ja", "readingStatus": "hiatus",
			},
			func(n *StoredNovel) {
				n.Author, n.Synopsis, n.CoverURL, n.Genres = "B", "C", "https://cdn.example.com/2.jpg", []string{"D"}
				n.Language, n.ReadingStatus = "ja", "hiatus"
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := s.NewPartner(t)
			title := Unique("Updated")
			created := p.Upsert(t, Key(), everything(title)).WantNovel(t, 201)
			response := p.Upsert(t, Key(), test.fields.With(Fields{"novel": title}))
			response.WantReplayed(t, false, false)
			want := created
			want.Created, want.Updated = false, true
			if diff := cmp.Diff(want, response.WantNovel(t, 200)); diff != "" {
				t.Errorf("answer (-want +got)\n%s", diff)
			}
			expected := stored(title, p.IntegrationID)
			test.change(&expected)
			wantStored(t, s, expected)
		})
	}
}

func TestInvalidUpdateChangesNothing(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewPartner(t)
	title := Unique("Unchanged")
	p.Upsert(t, Key(), everything(title)).WantNovel(t, 201)
	p.Upsert(t, Key(), Fields{"novel": title, "author": "New", "language": 7}).WantInvalid(t, "language")
	wantStored(t, p.Service, stored(title, p.IntegrationID))
}

func TestForeignNovelIsLeftAlone(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	owner, other := s.NewPartner(t), s.NewPartner(t)
	title := Unique("Foreign")
	created := owner.Upsert(t, Key(), everything(title)).WantNovel(t, 201)
	want := created
	want.Created = false
	for range 2 { // stores nothing, and so simply repeats
		response := other.Upsert(t, "foreign",
			Fields{"novel": title, "author": "Somebody else", "genres": []string{}})
		if diff := cmp.Diff(want, response.WantNovel(t, 200)); diff != "" {
			t.Errorf("answer (-want +got)\n%s", diff)
		}
	}
	wantStored(t, s, stored(title, owner.IntegrationID))
	other.Upsert(t, "foreign", Fields{"novel": Unique("The key is still free")}).WantNovel(t, 201)
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
