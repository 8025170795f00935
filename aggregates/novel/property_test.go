package novel_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"novelgate/aggregates/novel"
	"novelgate/events"
)

// model is what a reader of SPEC section 3 would keep of a novel.
type model struct {
	state   novel.State
	owner   uuid.UUID
	details novel.Details
}

// TestHistoriesOfDecisions holds for whatever partners and staff do in whatever order: the fold of what was decided is
// what the model expects, and a refusal changes nothing.
func TestHistoriesOfDecisions(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var n novel.Novel
		var m model
		move := func(t *rapid.T, to novel.State, event events.Event, err error, legal ...novel.State) {
			var refused *novel.TransitionError
			for _, from := range legal {
				if m.state == from {
					if err != nil {
						t.Fatalf("%s → %s: %v", m.state, to, err)
					}
					n = n.Apply(event)
					m.state = to
					return
				}
			}
			if !errors.As(err, &refused) {
				t.Fatalf("%s → %s was not refused: %v", m.state, to, err)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"upsert": func(t *rapid.T) {
				cmd := novel.Upsert{
					IntegrationID: rapid.SampledFrom([]uuid.UUID{owner, stranger}).Draw(t, "integration"),
					Review:        rapid.Bool().Draw(t, "review"), Title: "Genji", Slug: "genji", Fields: fields(t),
				}
				before := n
				outcome, event, err := n.Upsert(cmd)
				if event != nil {
					n = n.Apply(event)
				}
				switch {
				case m.state == "" || m.state == novel.Free:
					m = model{state: novel.Approved, owner: cmd.IntegrationID, details: novel.Details{Author: "Unknown"}}
					if cmd.Review {
						m.state = novel.Pending
					}
					m.set(cmd.Fields)
					expect(t, outcome, err, novel.Created, nil)
				case m.state == novel.Rejected:
					expect(t, outcome, err, 0, novel.ErrRejected)
				case m.state == novel.Published:
					expect(t, outcome, err, novel.Canonical, nil)
				case m.owner != cmd.IntegrationID:
					expect(t, outcome, err, novel.Foreign, nil)
				default:
					m.set(cmd.Fields)
					expect(t, outcome, err, novel.Updated, nil)
				}
				if stored := outcome == novel.Created || outcome == novel.Updated; stored != (event != nil) {
					t.Fatalf("outcome %d made %+v", outcome, event)
				}
				if event == nil && !cmp.Equal(before, n) {
					t.Fatal("nothing was decided, and yet the novel changed")
				}
			},
			"publish": func(t *rapid.T) {
				cmd := novel.Publication{Title: "Genji", Slug: "genji", Fields: fields(t)}
				decided, err := n.Publish(cmd)
				if err != nil {
					move(t, novel.Published, nil, err, "", novel.Free, novel.Pending, novel.Approved)
					return
				}
				if m.state == "" || m.state == novel.Free {
					m.details.Author = "Unknown"
				}
				move(t, novel.Published, decided[0], nil, "", novel.Free, novel.Pending, novel.Approved)
				for _, event := range decided[1:] {
					n = n.Apply(event)
				}
				m.owner = uuid.Nil
				m.set(cmd.Fields)
			},
			"approve": func(t *rapid.T) {
				event, err := n.Approve("why")
				if m.state == novel.Rejected && m.owner == uuid.Nil {
					move(t, novel.Free, event, err, novel.Rejected)
					return
				}
				move(t, novel.Approved, event, err, novel.Pending, novel.Rejected)
			},
			"reject": func(t *rapid.T) {
				event, err := n.Reject("why")
				move(t, novel.Rejected, event, err, novel.Pending, novel.Approved)
			},
			"bar": func(t *rapid.T) {
				event, err := n.Bar("Genji", "genji", "why")
				move(t, novel.Rejected, event, err, "", novel.Free)
			},
			"edit": func(t *rapid.T) {
				wanted := fields(t)
				event, err := n.Edit(wanted, "why")
				if m.state != novel.Published {
					var refused *novel.EditError
					if event != nil || !errors.As(err, &refused) {
						t.Fatalf("%s was edited: %+v, %v", m.state, event, err)
					}
					return
				}
				if event != nil {
					n = n.Apply(event)
				}
				m.set(wanted)
			},
			"": func(t *rapid.T) {
				if n.State != m.state {
					t.Fatalf("state %q, want %q", n.State, m.state)
				}
				if (n.OwnerID == nil) != (m.owner == uuid.Nil) || n.OwnerID != nil && *n.OwnerID != m.owner {
					t.Fatalf("owner %v, want %v", n.OwnerID, m.owner)
				}
				if diff := cmp.Diff(m.details, n.Details, cmpopts.EquateEmpty()); diff != "" {
					t.Fatalf("details (-want +got):\n%s", diff)
				}
				if n.Exists() && (n.Title != "Genji" || n.Slug != "genji") {
					t.Fatalf("became %q at %q", n.Title, n.Slug)
				}
			},
		})
	})
}

func expect(t *rapid.T, outcome novel.Outcome, err error, wantOutcome novel.Outcome, wantErr error) {
	t.Helper()
	if outcome != wantOutcome || !errors.Is(err, wantErr) {
		t.Fatalf("outcome %d, error %v; want %d, %v", outcome, err, wantOutcome, wantErr)
	}
}

func (m *model) set(f novel.Fields) {
	for _, field := range []struct {
		to   *string
		from *string
	}{
		{&m.details.Author, f.Author},
		{&m.details.Synopsis, f.Synopsis},
		{&m.details.CoverURL, f.CoverURL},
		{&m.details.Language, f.Language},
		{&m.details.ReadingStatus, f.ReadingStatus},
	} {
		if field.from != nil {
			*field.to = *field.from
		}
	}
	if f.Genres != nil {
		m.details.Genres = *f.Genres
	}
}

func fields(t *rapid.T) novel.Fields {
	text := rapid.Ptr(rapid.SampledFrom([]string{"", "a", "b"}), true)
	return novel.Fields{
		Author: rapid.Ptr(rapid.SampledFrom([]string{"a", "b"}), true).Draw(t, "author"), Synopsis: text.Draw(t, "synopsis"),
		CoverURL: text.Draw(t, "cover"), Language: text.Draw(t, "language"), ReadingStatus: text.Draw(t, "status"),
		Genres: rapid.Ptr(rapid.SliceOfN(rapid.SampledFrom([]string{"x", "y"}), 0, 2), true).Draw(t, "genres"),
	}
}
