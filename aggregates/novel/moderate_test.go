package novel_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"novelgate/aggregates/novel"
	"novelgate/events"
)

// TestModeration goes through every state and every move.
func TestModeration(t *testing.T) {
	t.Parallel()
	const unknown novel.State = ""
	type move string
	const publish, approve, reject = move("publish"), move("approve"), move("reject")
	target := map[move]novel.State{publish: novel.Published, approve: novel.Approved, reject: novel.Rejected}

	histories := map[novel.State]events.Event{
		novel.Pending: created(novel.Pending), novel.Approved: created(novel.Approved), novel.Published: created(novel.Published), novel.Rejected: nil,
	}
	in := func(state novel.State) novel.Novel {
		switch state {
		case unknown:
			return given()
		case novel.Rejected:
			return given(created(novel.Approved), events.NovelRejected{Reason: "spam"})
		default:
			return given(histories[state])
		}
	}
	decide := map[move]func(novel.Novel) (events.Event, error){
		publish: func(n novel.Novel) (events.Event, error) { return n.Publish("Genji", "genji", "why") },
		approve: func(n novel.Novel) (events.Event, error) { return n.Approve("why") },
		reject:  func(n novel.Novel) (events.Event, error) { return n.Reject("why") },
	}
	// What is not here is refused.
	allowed := map[novel.State]map[move]events.Event{
		unknown:        {publish: events.NovelCreated{Title: "Genji", Slug: "genji", Author: "Unknown", State: "published"}},
		novel.Pending:  {publish: events.NovelPublished{Reason: "why"}, approve: events.NovelApproved{Reason: "why"}, reject: events.NovelRejected{Reason: "why"}},
		novel.Approved: {publish: events.NovelPublished{Reason: "why"}, reject: events.NovelRejected{Reason: "why"}},
		novel.Rejected: {approve: events.NovelApproved{Reason: "why"}},
	}
	for _, from := range []novel.State{unknown, novel.Pending, novel.Approved, novel.Published, novel.Rejected} {
		for move, to := range target {
			t.Run(string(from)+" "+string(move), func(t *testing.T) {
				t.Parallel()
				n := in(from)
				if n.State != from {
					t.Fatalf("the novel is %q, want %q", n.State, from)
				}
				event, err := decide[move](n)
				want, ok := allowed[from][move]
				if !ok {
					var refused *novel.TransitionError
					if !errors.As(err, &refused) || refused.From != from || refused.To != to {
						t.Errorf("got %v, want a refusal of %q → %q", err, from, to)
					}
					if event != nil {
						t.Errorf("a refused move made %+v", event)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, event); diff != "" {
					t.Errorf("event (-want +got):\n%s", diff)
				}
				after := n.Apply(event)
				if after.State != to || after.Version != n.Version+1 {
					t.Errorf("became %q at version %d", after.State, after.Version)
				}
				if (after.OwnerID == nil) != (to == novel.Published) {
					t.Errorf("owner %v of a novel that is %s", after.OwnerID, to)
				}
			})
		}
	}
}

func TestOpenToComments(t *testing.T) {
	t.Parallel()
	for state, want := range map[novel.State]bool{
		"": false, novel.Pending: false, novel.Approved: true, novel.Published: true, novel.Rejected: false,
	} {
		if got := (novel.Novel{State: state}).Open(); got != want {
			t.Errorf("a novel that is %q: open %t, want %t", state, got, want)
		}
	}
}

func TestTransitionErrorSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	err := &novel.TransitionError{From: novel.Published, To: novel.Rejected}
	if got, want := err.Error(), "a novel that is published cannot become rejected"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
