package novel_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"novelgate/aggregates/novel"
	"novelgate/events"
)

// status is the status of a title: a state, or one of those without a novel.
type status string

const (
	unknown   status = "unknown"
	barred    status = "barred" // rejected before its first import
	free      status = "free"
	pending   status = "pending"
	approved  status = "approved"
	published status = "published"
	rejected  status = "rejected"
)

// histories lead to each status.
var histories = map[status][]events.Event{
	unknown: nil,
	barred:  {events.NovelBarred{Title: "Genji", Slug: "kept", Reason: "spam"}},
	free: {
		events.NovelBarred{Title: "Genji", Slug: "kept", Reason: "spam"}, events.NovelUnbarred{Reason: "a mistake"},
	},
	pending:   {created(novel.Pending)},
	approved:  {created(novel.Approved)},
	published: {created(novel.Published)},
	rejected:  {created(novel.Approved), events.NovelRejected{Reason: "spam"}},
}

func statusOf(n novel.Novel) status {
	switch {
	case n.Version == 0:
		return unknown
	case n.Barred():
		return barred
	default:
		return status(n.State)
	}
}

// move is a command of staff or of a partner about a title.
type move struct {
	to     novel.State // target state in the refusal; "" for refusals with another text
	decide func(novel.Novel) ([]events.Event, error)
}

func one(event events.Event, err error) ([]events.Event, error) {
	if event == nil {
		return nil, err
	}
	return []events.Event{event}, err
}

var moves = map[string]move{
	"publish": {novel.Published, func(n novel.Novel) ([]events.Event, error) {
		return n.Publish(novel.Publication{Title: "GENJI", Slug: "genji", Reason: "why"})
	}},
	"publish with fields": {novel.Published, func(n novel.Novel) ([]events.Event, error) {
		return n.Publish(novel.Publication{
			Title: "GENJI", Slug: "genji", Fields: novel.Fields{Author: new("Unknown"), Language: new("ja")}, Reason: "why",
		})
	}},
	"approve": {novel.Approved, func(n novel.Novel) ([]events.Event, error) { return one(n.Approve("why")) }},
	"reject":  {novel.Rejected, func(n novel.Novel) ([]events.Event, error) { return one(n.Reject("why")) }},
	"bar": {
		novel.Rejected, func(n novel.Novel) ([]events.Event, error) { return one(n.Bar("GENJI", "genji", "why")) },
	},
	"edit": {"", func(n novel.Novel) ([]events.Event, error) {
		return one(n.Edit(novel.Fields{Author: new("Unknown"), Language: new("ja")}, "why"))
	}},
	"edit nothing": {"", func(n novel.Novel) ([]events.Event, error) {
		return one(n.Edit(novel.Fields{Author: new("Unknown"), Genres: new([]string{})}, "why"))
	}},
	"import": {"", func(n novel.Novel) ([]events.Event, error) {
		_, event, err := n.Upsert(novel.Upsert{IntegrationID: owner, Title: "GENJI", Slug: "genji"})
		return one(event, err)
	}},
}

// outcome is the result of a move.
type outcome struct {
	then []events.Event
	is   status
}

// outcomes has every allowed pair of a status and a move.
func outcomes() map[status]map[string]outcome {
	hosts := events.NovelCreated{Title: "GENJI", Slug: "genji", Author: "Unknown", State: "published", Reason: "why"}
	withFields := hosts
	withFields.Language = "ja"
	partners := events.NovelCreated{Title: "GENJI", Slug: "genji", Author: "Unknown", OwnerID: &owner, State: "approved"}
	kept := func(e events.NovelCreated) events.NovelCreated { e.Slug = "kept"; return e }
	adopt, language := events.NovelPublished{Reason: "why"}, events.NovelUpdated{Language: new("ja")}
	approve, reject := events.NovelApproved{Reason: "why"}, events.NovelRejected{Reason: "why"}
	list := func(e ...events.Event) []events.Event { return e }
	return map[status]map[string]outcome{
		unknown: {
			"publish": {list(hosts), published}, "publish with fields": {list(withFields), published},
			"bar":    {list(events.NovelBarred{Title: "GENJI", Slug: "genji", Reason: "why"}), barred},
			"import": {list(partners), approved},
		},
		free: {
			"publish": {list(kept(hosts)), published}, "publish with fields": {list(kept(withFields)), published},
			"bar":    {list(events.NovelBarred{Title: "Genji", Slug: "kept", Reason: "why"}), barred},
			"import": {list(kept(partners)), approved},
		},
		barred: {"approve": {list(events.NovelUnbarred{Reason: "why"}), free}},
		pending: {
			"publish": {list(adopt), published}, "publish with fields": {list(adopt, language), published},
			"approve": {list(approve), approved}, "reject": {list(reject), rejected},
			"import": {list(events.NovelUpdated{}), pending},
		},
		approved: {
			"publish": {list(adopt), published}, "publish with fields": {list(adopt, language), published},
			"reject": {list(reject), rejected}, "import": {list(events.NovelUpdated{}), approved},
		},
		published: {
			"edit": {list(events.NovelUpdated{Language: new("ja"), Reason: "why"}), published}, "edit nothing": {nil, published},
			"import": {nil, published},
		},
		rejected: {"approve": {list(approve), approved}},
	}
}

// TestModeration tests every move in every status.
func TestModeration(t *testing.T) {
	t.Parallel()
	allowed := outcomes()
	for from, history := range histories {
		for name, move := range moves {
			t.Run(string(from)+" "+name, func(t *testing.T) {
				t.Parallel()
				n := given(history...)
				if got := statusOf(n); got != from {
					t.Fatalf("the novel is %s, want %s", got, from)
				}
				decided, err := move.decide(n)
				want, ok := allowed[from][name]
				if !ok {
					checkRefusal(t, n, move.to, decided, err)
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want.then, decided); diff != "" {
					t.Errorf("events (-want +got):\n%s", diff)
				}
				after := n
				for _, event := range decided {
					after = after.Apply(event)
				}
				if got := statusOf(after); got != want.is || after.Version != n.Version+len(decided) {
					t.Errorf("became %s at version %d, want %s", got, after.Version, want.is)
				}
				hasOwner := want.is == pending || want.is == approved || want.is == rejected
				if (after.OwnerID != nil) != hasOwner {
					t.Errorf("owner %v of a novel that is %s", after.OwnerID, want.is)
				}
			})
		}
	}
}

// checkRefusal checks that a refusal names both states, or the necessary step, and decides nothing.
func checkRefusal(t *testing.T, n novel.Novel, to novel.State, decided []events.Event, err error) {
	t.Helper()
	if decided != nil {
		t.Errorf("a refused move made %+v", decided)
	}
	var edit *novel.EditError
	if to == "" {
		if !errors.Is(err, novel.ErrRejected) && (!errors.As(err, &edit) || edit.State != n.State || edit.Error() == "") {
			t.Errorf("got %v", err)
		}
		return
	}
	var refused *novel.TransitionError
	if !errors.As(err, &refused) || refused.From != n.State || refused.To != to {
		t.Errorf("got %v, want a refusal of %q → %q", err, n.State, to)
	}
}

func TestOpenToComments(t *testing.T) {
	t.Parallel()
	for state, want := range map[novel.State]bool{
		"": false, novel.Pending: false, novel.Approved: true, novel.Published: true, novel.Rejected: false,
		novel.Free: false,
	} {
		if got := (novel.Novel{State: state}).Open(); got != want {
			t.Errorf("a novel that is %q: open %t, want %t", state, got, want)
		}
	}
}

func TestTransitionErrorSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"a novel that is published cannot become rejected": &novel.TransitionError{From: novel.Published, To: novel.Rejected},
		"the novel is approved already":                    &novel.TransitionError{From: novel.Approved, To: novel.Approved},
	} {
		if got := err.Error(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
