package events_test

import (
	"testing"

	"github.com/google/uuid"

	"novelgate/events"
)

// TestIdentifiersAreStable: concurrent writers must derive the same identifier in all versions.
func TestIdentifiersAreStable(t *testing.T) {
	t.Parallel()
	novelID := events.NovelID("the tale of genji")
	for name, c := range map[string]struct {
		got  uuid.UUID
		want string
	}{
		"novel":        {novelID, "cd975df1-09e1-543c-a1db-5395c67ec312"},
		"novel, greek": {events.NovelID("ὀδύσσεια"), "bfd40882-0510-5106-b1fa-6c27e011d5f5"},
		"thread":       {events.ThreadID(novelID), "32929996-3e3e-5edb-a143-9f8dccff98f5"},
		"post":         {events.PostID(id(1), "comment-1"), "fdc3ca78-1148-8e44-93d6-cc697a18be4f"},
		"author":       {events.AuthorID("key", "user-1"), "0b590777-65d2-801f-a084-b6cd1670dd2e"},
		"staff":        {events.PersonID("staff", "ZOË"), "7fc28bf0-3db5-504d-8639-0f88b9e91a56"},
		"projection":   {events.ProjectionID("posts"), "530bec84-2e94-5336-aed5-facd4421c848"},
		"auditor":      {events.PersonID("auditor", "Zoë"), "42b2a0d8-7aad-5587-bd9b-c53ed21f7f77"},
	} {
		if c.got.String() != c.want {
			t.Errorf("%s: %s, want %s", name, c.got, c.want)
		}
		isHash := name == "post" || name == "author"
		if c.got.Version() != 5 && (!isHash || c.got.Version() != 8) || c.got.Variant() != uuid.RFC4122 {
			t.Errorf("%s: version %d", name, c.got.Version())
		}
	}
}

func TestSourcesAreUnique(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, integrationID := range []uuid.UUID{id(1), id(2)} {
		for name, source := range map[string]func(uuid.UUID) string{
			"novels": events.NovelsSource, "posts": events.PostsSource, "thread": events.PostThreadSource,
			"novel": events.PostNovelSource,
		} {
			got := source(integrationID)
			if other, taken := seen[got]; taken {
				t.Errorf("%s and %s share %q", name, other, got)
			}
			seen[got] = name
		}
	}
	const want = "integrations/01000000-0000-7000-8000-000000000001/posts/thread"
	if got := events.PostThreadSource(id(1)); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestSplitSource(t *testing.T) {
	t.Parallel()
	for _, source := range []string{
		events.NovelsSource(id(1)), events.PostsSource(id(1)), events.PostThreadSource(id(1)),
		events.PostNovelSource(id(1)) + "#2",
	} {
		got, path := events.SplitSource(source)
		if !got.Valid || got.UUID != id(1) || events.JoinSource(got.UUID, path) != source {
			t.Errorf("%s: %v, %s", source, got, path)
		}
	}
	for _, source := range []string{
		"", "staff/integrations/" + id(1).String(), "integrations/" + id(1).String(), "integrations/nobody/posts",
		"integrations/" + id(1).String() + "/", "integrations/ABCDEF00-0000-7000-8000-000000000001/posts",
	} {
		if got, path := events.SplitSource(source); got.Valid || path != source {
			t.Errorf("%q: %v, %s", source, got, path)
		}
	}
}

func TestDiffers(t *testing.T) {
	t.Parallel()
	salt := uuid.NullUUID{UUID: id(1), Valid: true}
	kept := events.FingerprintOf(id(1), []byte("command"))
	for name, c := range map[string]struct {
		fingerprint events.Fingerprint
		salt        uuid.NullUUID
		command     string
		want        bool
	}{
		"the same":             {kept, salt, "command", false},
		"another":              {kept, salt, "Command", true},
		"another salt":         {kept, uuid.NullUUID{UUID: id(2), Valid: true}, "command", true},
		"erased":               {kept, uuid.NullUUID{}, "another", false},
		"nothing kept":         {events.Fingerprint{}, salt, "another", false},
		"an empty command too": {kept, salt, "", true},
	} {
		if got := c.fingerprint.Differs(c.salt, []byte(c.command)); got != c.want {
			t.Errorf("%s: differs %t", name, got)
		}
	}
	text, err := kept.MarshalText()
	if err != nil || string(text) != "Vj2FzNt7Jp9OmOzoVlzGuw" {
		t.Errorf("fingerprint %s, %v: those on record would no longer match", text, err)
	}
}
