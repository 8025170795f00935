package e2e_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// aim is the state that a move leads to where it is allowed.
var aim = map[string]string{"approve": "approved", "reject": "rejected", "publish": "published"}

// view is how partners see a novel: the outcome of an upsert and of a dry run by its owner and by another, of a
// comment, and what the owner's delivery says.
type view struct {
	OwnerUpsert, OtherUpsert   string // updated, canonical, foreign, or the code of the refusal
	OwnerResolve, OtherResolve string // the rule
	Comment                    string // created, or the code of the refusal
	Delivery                   string // the state
	Reason                     string // of a rejection
}

// views by state. SPEC.md, section 3, rules 2 to 4; docs/openapi.yaml.
var views = map[string]view{
	"pending":   {"updated", "foreign", "pending", "foreign", "novel_not_found", "pending", ""},
	"approved":  {"updated", "foreign", "update", "foreign", "created", "approved", ""},
	"published": {"canonical", "canonical", "canonical", "canonical", "created", "published", ""},
	"rejected":  {"novel_rejected", "novel_rejected", "rejected", "rejected", "novel_not_found", "rejected", "test"},
}

// TestTransitions takes a novel through every state, over HTTP and on the command line. After each step partners see
// the state that it reached, and a refused step is not in the history. aggregates/novel tests every move from every
// state, commands/committer what partners are answered.
func TestTransitions(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	n := &subject{
		ada: s.NewStaff(t), owner: s.NewPartner(t, Fields{"review": true}), other: s.NewPartner(t), title: Unique("Moved"),
	}
	n.id = n.owner.Upsert(t, n.title[len(n.title)-16:], Fields{"novel": n.title}).WantNovel(t, 201).NovelID
	state := "pending"
	if diff := cmp.Diff(views[state], n.view(t)); diff != "" {
		t.Errorf("created (-want +got)\n%s", diff)
	}
	for _, step := range []struct {
		act      func(*testing.T, *subject, string, string) int
		move, to string // to is empty when the move is refused
	}{
		{overHTTP, "approve", "approved"},
		{onTheCommandLine, "approve", ""},
		{onTheCommandLine, "reject", "rejected"},
		{overHTTP, "reject", ""},
		{byTitle, "publish", ""},
		{onTheCommandLine, "publish", ""},
		{onTheCommandLine, "approve", "approved"},
		{overHTTP, "reject", "rejected"},
		{overHTTP, "approve", "approved"},
		{byTitle, "publish", "published"},
		{overHTTP, "approve", ""},
		{onTheCommandLine, "reject", ""},
	} {
		from, versions := state, step.act(t, n, step.move, step.to)
		if step.to != "" {
			state = step.to
			versions++
		}
		if diff := cmp.Diff(views[state], n.view(t)); diff != "" {
			t.Errorf("right after %s %s (-want +got)\n%s", from, step.move, diff)
		}
		shown := n.show(t)
		moves := shown.moves()
		if shown.State != state || len(moves) != versions ||
			step.to != "" && !strings.HasPrefix(moves[len(moves)-1], "novel."+state) {
			t.Errorf("%s %s: state %s, history %v, want %d events up to %s", from, step.move, shown.State, moves, versions,
				state)
		}
	}
}

// subject is a novel that is moved.
type subject struct {
	ada          *Person
	owner, other *Partner
	title, id    string
}

// shownNovel is a novel as staff sees it.
type shownNovel struct {
	State   string `json:"state"`
	History []struct {
		Type string `json:"type"`
	} `json:"history"`
}

// moves are the events of moderation, without those of the owner's updates.
func (n shownNovel) moves() []string {
	var types []string
	for _, event := range n.History {
		if !strings.HasPrefix(event.Type, "novel.updated") {
			types = append(types, event.Type)
		}
	}
	return types
}

func (n *subject) show(t *testing.T) shownNovel {
	t.Helper()
	var shown shownNovel
	n.ada.Get(t, "/api/admin/novels/"+n.id).WantJSON(t, 200, &shown)
	return shown
}

// view asks for everything at once, so that whatever is asked is the next request.
func (n *subject) view(t *testing.T) view {
	t.Helper()
	var v view
	var all sync.WaitGroup
	for _, ask := range []func(){
		func() { v.OwnerUpsert = upsertOutcome(t, n.owner, n.title) },
		func() { v.OtherUpsert = upsertOutcome(t, n.other, n.title) },
		func() { v.OwnerResolve = resolveRule(t, n.owner, n.title) },
		func() { v.OtherResolve = resolveRule(t, n.other, n.title) },
		func() {
			response := n.other.Import(t, Key(), Comment(n.title))
			v.Comment = outcomeOf(t, response,
				func(post map[string]any) string { return map[bool]string{true: "created"}[post["created"] == true] })
		},
		func() {
			v.Delivery = outcomeOf(t,
				n.owner.Inquire(t, "/api/integrations/deliveries/"+n.title[len(n.title)-16:]+"?operation=novels"),
				func(d map[string]any) string {
					v.Reason, _ = d["reason"].(string)
					state, _ := d["state"].(string)
					return state
				})
		},
	} {
		all.Go(ask)
	}
	all.Wait()
	return v
}

func upsertOutcome(t *testing.T, p *Partner, title string) string {
	t.Helper()
	return outcomeOf(t, p.Upsert(t, Key(), Fields{"novel": title}), func(novel map[string]any) string {
		switch {
		case novel["created"] == true:
			return "created"
		case novel["updated"] == true:
			return "updated"
		case novel["canonical"] == true:
			return "canonical"
		default:
			return "foreign"
		}
	})
}

func resolveRule(t *testing.T, p *Partner, title string) string {
	t.Helper()
	return outcomeOf(t,
		p.Service.Send(t, p.Request("/api/integrations/resolve", "", Fields{"novel": title}.JSON(t))),
		func(answer map[string]any) string {
			rule, _ := answer["rule"].(string)
			return rule
		})
}

// outcomeOf is what success says of the answer, or the code of the refusal.
func outcomeOf(t *testing.T, response Response, success func(map[string]any) string) string {
	t.Helper()
	body := wantJSON(t, response)
	if code, refused := body["code"].(string); refused {
		return code
	}
	return success(body)
}

// overHTTP and its siblings try a move that leads to another state, or is refused for the two states when to is empty.
// They return how many moves the novel had made before.
func overHTTP(t *testing.T, n *subject, move, to string) int {
	t.Helper()
	before := n.show(t)
	response := n.ada.Post(t, "/api/admin/novels/"+n.id+"/"+move, Key(), Fields{"reason": "test"})
	n.wantMoved(t, response, http.StatusOK, before.State, aim[move], to)
	return len(before.moves())
}

func byTitle(t *testing.T, n *subject, move, to string) int {
	t.Helper()
	before := n.show(t)
	response := n.ada.Post(t, "/api/admin/novels", Key(),
		Fields{"novel": strings.ToUpper(n.title), "reason": "test"})
	n.wantMoved(t, response, http.StatusCreated, before.State, aim[move], to)
	return len(before.moves())
}

func (n *subject) wantMoved(t *testing.T, response Response, status int, from, wanted, to string) {
	t.Helper()
	if to == "" {
		problem := response.WantProblem(t, 409, "invalid_transition")
		wantBothStates(t, problem.Detail, from, wanted)
		return
	}
	var moved struct{ NovelID, State string }
	response.WantJSON(t, status, &moved)
	if moved.State != to || moved.NovelID != n.id {
		t.Errorf("%+v, want novel %s %s", moved, n.id, to)
	}
}

func onTheCommandLine(t *testing.T, n *subject, move, to string) int {
	t.Helper()
	s, before := n.ada.Service, n.show(t)
	if to == "" {
		out := s.Refused(t, "novel", move, n.title, "--reason", "test")
		if out.Code != 1 {
			t.Errorf("exit code %d, want 1", out.Code)
		}
		wantBothStates(t, out.Stderr, before.State, aim[move])
	} else if moved := s.Moderate(t, move, n.title); moved.State != to || moved.NovelID != n.id {
		t.Errorf("%+v, want novel %s %s", moved, n.id, to)
	}
	return len(before.moves())
}

func wantBothStates(t *testing.T, text, from, to string) {
	t.Helper()
	rest := strings.Replace(text, from, "", 1)
	if rest == text || !strings.Contains(rest, to) {
		t.Errorf("%q does not name %s and %s", text, from, to)
	}
}
