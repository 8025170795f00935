package reference_test

import (
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"novelgate/events"
	"novelgate/internal/reference"
)

var partner = uuid.UUID{7}

// history adds envelopes to events, one minute apart.
func history(list ...events.Recorded) []events.Recorded {
	for i := range list {
		r := &list[i]
		r.LogIndex = int64(i)
		r.RecordedAt = time.Date(2026, 1, 2, 3, i, 0, 500_000_000, time.UTC)
		r.StreamVersion = max(r.StreamVersion, 1)
	}
	return list
}

func comment(key, author, name string, written int, parent string) events.Recorded {
	e := events.PostImported{
		IntegrationID: partner, NovelID: uuid.UUID{1}, ThreadID: uuid.UUID{2}, ChapterNumber: jsontext.Value("1.50e1"),
		WrittenAt: time.Date(2026, 1, 1, written, 0, 0, 0, time.UTC),
		Comment:   &events.Comment{ExternalUUID: author, Username: name, Content: "text"},
	}
	if parent != "" {
		id := events.PostID(partner, parent)
		e.ParentPostID = &id
	}
	return events.Recorded{
		StreamType: events.PostStream, StreamID: events.PostID(partner, key), ID: key, Source: events.PostsSource(partner),
		Event: e,
	}
}

func tables(t *testing.T, log []events.Recorded) map[string][]string {
	t.Helper()
	all, err := reference.Of(log).Tables()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// column returns the values of a column, row by row.
func column(t *testing.T, rows []string, name string) []string {
	t.Helper()
	var values []string
	for _, row := range rows {
		_, rest, found := strings.Cut(row, `"`+name+`":`)
		if !found {
			t.Fatalf("%s has no column %s", row, name)
		}
		value, _, _ := strings.Cut(strings.TrimSuffix(rest, "}"), `,"`)
		values = append(values, value)
	}
	return values
}

func TestRepliesStandBelowOneAnother(t *testing.T) {
	t.Parallel()
	posts := tables(t,
		history(comment("a", "u", "U", 1, ""), comment("b", "u", "U", 1, "a"), comment("c", "u", "U", 1, "b")))["posts"]
	got := map[string]string{}
	for i, id := range column(t, posts, "post_id") {
		got[id] = column(t, posts, "depth")[i] + " " + column(t, posts, "root_post_id")[i]
	}
	id := func(key string) string { return `"` + events.PostID(partner, key).String() + `"` }
	want := map[string]string{id("a"): "0 null", id("b"): "1 " + id("a"), id("c"): "2 " + id("a")}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]string{"15.0", "15.0", "15.0"}, column(t, posts, "chapter_number")); diff != "" {
		t.Errorf("chapters (-want +got)\n%s", diff)
	}
}

func TestTheLatestCommentGivesTheName(t *testing.T) {
	t.Parallel()
	log := history(comment("a", "u", "First", 5, ""), comment("b", "u", "Backdated", 1, ""),
		comment("c", "u", "Same instant", 5, ""))
	if diff := cmp.Diff([]string{`"Same instant"`}, column(t, tables(t, log)["authors"], "display_name")); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestErasure: an erased author is removed everywhere, and may comment again.
func TestErasure(t *testing.T) {
	t.Parallel()
	erased := events.Recorded{
		StreamType: events.AuthorStream, StreamID: events.AuthorID(partner, "u"), Source: "staff",
		Event: events.AuthorErased{IntegrationID: partner},
	}
	log := []events.Recorded{comment("a", "u", "U", 1, ""), comment("b", "other", "Other", 2, ""), erased}
	after := tables(t, history(log...))
	for table, want := range map[string]int{"posts": 2, "authors": 1, "author_decisions": 1} {
		if got := len(after[table]); got != want {
			t.Errorf("%d rows of %s, want %d", got, table, want)
		}
	}
	if strings.Contains(strings.Join(after["posts"], ""), erased.StreamID.String()) {
		t.Errorf("posts still name the author: %v", after["posts"])
	}
	anew := tables(t, history(append(log, comment("c", "u", "Again", 3, ""))...))
	if got := len(anew["authors"]); got != 2 {
		t.Errorf("%d authors after a new beginning, want 2", got)
	}
}
