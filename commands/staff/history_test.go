package staff_test

import (
	"context"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"novelgate/commands/staff"
	"novelgate/events"
	"novelgate/internal/testdb"
)

// TestHistoryNames: histories say who and why, with names, on the database as through the service.
func TestHistoryNames(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	id := uuid.MustParse(d.integrationID)
	novelID := imported(t, d.staff, "Genji", "approved")
	imported := comment(id, "u", "k")
	post, _ := imported.Event.(events.PostImported)
	post.NovelID = novelID
	imported.Event = post
	edit := events.Recorded{
		StreamType: events.PostStream, StreamID: imported.StreamID, StreamVersion: 2, ID: "e", Source: imported.Source,
		Event: events.PostEdited{
			IntegrationID: id, EditedAt: noon, NewChapter: true, Chapter: jsontext.Value("4"),
			FormerChapter: jsontext.Value("3"),
		},
	}
	appendAll(t, d.staff, imported, edit)
	testdb.Must(d.staff.HidePost(t.Context(), imported.StreamID, "spoils the end"))(t)
	testdb.Must(d.staff.RejectByID(t.Context(), novelID, "not a novel"))(t)
	remote := d.remote(t, 0)
	for _, s := range []interface {
		Post(ctx context.Context, id uuid.UUID) (staff.Post, error)
		NovelWithHistory(ctx context.Context, id uuid.UUID) (staff.Novel, error)
		IntegrationWithHistory(ctx context.Context, idOrName string) (staff.Integration, error)
	}{d.staff, remote} {
		p := testdb.Must(s.Post(t.Context(), imported.StreamID))(t)
		if p.NovelTitle != "Genji" || p.Integration != "Fan Site" {
			t.Errorf("the post is of %q and %q", p.NovelTitle, p.Integration)
		}
		i := testdb.Must(s.IntegrationWithHistory(t.Context(), "fan site"))(t)
		n := testdb.Must(s.NovelWithHistory(t.Context(), novelID))(t)
		var got []string
		for _, list := range [][]staff.HistoryEntry{p.History, n.History, i.History[:1]} {
			for _, e := range list {
				got = append(got, e.Type+" by "+e.ActorName+": "+e.Summary)
			}
		}
		want := []string{
			"post.imported.v1 by Fan Site: ", "post.edited.v1 by Fan Site: chapter 3 → 4", "post.hidden.v1 by : spoils the end",
			"novel.created.v1 by : ", "novel.rejected.v1 by : not a novel", "integration.registered.v1 by : Fan Site",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%T (-want +got)\n%s", s, diff)
		}
	}
}
