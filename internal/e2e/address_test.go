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
	for flag, public := range map[string]string{
		"https://novels.example.org":         "https://novels.example.org",
		"https://novels.example.org/":        "https://novels.example.org",
		"https://example.org:8443/catalogue": "https://example.org:8443/catalogue",
	} {
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			s := Start(t, testdb.New(t), "--public-url", flag)
			p := s.NewPartner(t)
			novel := p.Upsert(t, Key(), Fields{"novel": "Public"}).WantNovel(t, 201)
			if want := public + "/novels/" + novel.Slug; novel.URL != want {
				t.Errorf("url %s, want %s", novel.URL, want)
			}
			wantAddress(t, public, novel.Slug, p.Import(t, Key(), Comment("Public")).WantPost(t, 201))
		})
	}
}

func TestSlugsAreUnique(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewPartner(t)
	suffix := Unique("")
	long := strings.Repeat("many words ", 20)
	slugs := map[string]string{}
	for _, title := range []string{
		"Same Slug" + suffix, "Same-Slug" + suffix, "Same Slug!" + suffix, "Same/Slug" + suffix, "Samé Slug" + suffix,
		long + suffix + " a", long + suffix + " b", // alike far beyond the length of a slug
		"🐉🐉🐉", "🐲🐲🐲", "!!!", "???", "…", "——", // nothing to make a slug of
		"../../etc/passwd" + suffix, "a?b#c%2f" + suffix, "<script>" + suffix, "novels" + suffix,
	} {
		response := p.Upsert(t, Key(), Fields{"novel": title})
		if response.Status == 200 { // not the first run on this database
			continue
		}
		novel := response.WantNovel(t, 201)
		if other, taken := slugs[novel.Slug]; taken {
			t.Errorf("%q and %q share the slug %s", title, other, novel.Slug)
		}
		slugs[novel.Slug] = title
		if len(novel.Slug) > 100 {
			t.Errorf("slug %q is %d bytes long", novel.Slug, len(novel.Slug))
		}
	}
}

func TestSlugStaysWithTheNovel(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewPartner(t)
	title := Unique("Stays")
	created := p.Upsert(t, Key(), Fields{"novel": title}).WantNovel(t, 201)
	for i := range 3 {
		updated := p.Upsert(t, Key(), Fields{
			"novel":  strings.ToUpper(title),
			"author": fmt.Sprint(i),
		}).WantNovel(t, 200)
		if updated.Slug != created.Slug || updated.URL != created.URL {
			t.Errorf("address %s %s, want %s %s", updated.Slug, updated.URL, created.Slug, created.URL)
		}
	}
}

func wantAddress(t *testing.T, public, slug string, post Post) {
	t.Helper()
	if want := fmt.Sprintf("%s/novels/%s/discussion?post=%s#post-%s", public, slug, post.PostID,
		post.PostID); post.URL != want {
		t.Errorf("url of the post %s, want %s", post.URL, want)
	}
}
