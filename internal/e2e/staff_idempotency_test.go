package e2e_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// staffPosts returns every POST for staff in docs/openapi.yaml.
func staffPosts(t *testing.T) []Route {
	t.Helper()
	posts := slices.DeleteFunc(Routes(t), func(route Route) bool {
		return route.Method != http.MethodPost || routeClasses[route.String()].class != forStaff
	})
	if len(posts) == 0 {
		t.Fatal("no POST for staff is documented")
	}
	return posts
}

// eachStaffPost tests every POST for staff by itself.
func eachStaffPost(
	t *testing.T, test func(t *testing.T, s *Service, ada *Person, route Route),
) {
	t.Helper()
	s := Shared(t)
	ada := s.NewStaff(t)
	for _, route := range staffPosts(t) {
		t.Run(strings.ReplaceAll(route.Path, "/", "·"), func(t *testing.T) {
			t.Parallel()
			test(t, s, ada, route)
		})
	}
}

func TestEveryCommandOfStaffNeedsAKey(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	d := newDesk(t, s.NewStaff(t))
	before := d.standing(t)
	for _, route := range staffPosts(t) {
		if !route.NeedsKey() {
			t.Errorf("docs/openapi.yaml does not require an Idempotency-Key of %s", route)
		}
		request := d.request(t, route, routeClasses[route.String()].body)
		request.Bearer, request.Key = d.ada.APIKey, ""
		for _, header := range []http.Header{
			nil, {"Idempotency-Key": {""}}, {"Idempotency-Key": {"a", "b"}}, {"Idempotency-Key": {strings.Repeat("k", 256)}},
		} {
			request.Header = header
			s.Send(t, request).WantProblem(t, 400, "invalid_idempotency_key")
		}
	}
	if diff := cmp.Diff(before, d.standing(t)); diff != "" {
		t.Errorf("a command without a key was carried out (-before +after)\n%s", diff)
	}
}

func TestRepeatedCommandOfStaff(t *testing.T) {
	t.Parallel()
	eachStaffPost(t, func(t *testing.T, s *Service, ada *Person, route Route) {
		d := newDesk(t, ada)
		request := d.request(t, route, routeClasses[route.String()].body)
		request.Bearer = ada.APIKey
		first := s.Send(t, request)
		first.WantReplayed(t, false, false)
		answer := wantDone(t, route, first)
		after, recorded := d.standing(t), recordedUnder(t, s, request.Key)
		if recorded == 0 {
			t.Error("nothing is on record under the key")
		}
		for range 2 {
			again := s.Send(t, request)
			again.WantReplayed(t, true, false)
			wantRepeated(t, answer, again)
		}
		if diff := cmp.Diff(after, d.standing(t)); diff != "" {
			t.Errorf("the repetition has changed something (-once +again)\n%s", diff)
		}
		if got := recordedUnder(t, s, request.Key); got != recorded {
			t.Errorf("%d events after the repetition, want %d", got, recorded)
		}

		// Keys are scoped to the address and to the person: elsewhere, and to another one, this key is new.
		if strings.Contains(route.Path, "{") {
			elsewhere := newDesk(t, ada).request(t, route, routeClasses[route.String()].body)
			elsewhere.Bearer, elsewhere.Key = ada.APIKey, request.Key
			response := s.Send(t, elsewhere)
			response.WantReplayed(t, false, false)
			wantDone(t, route, response)
		}
		request.Bearer = s.NewStaff(t).APIKey
		s.Send(t, request).WantReplayed(t, false, false)
	})
}

func TestConcurrentCommandsOfStaff(t *testing.T) {
	t.Parallel()
	eachStaffPost(t, func(t *testing.T, s *Service, ada *Person, route Route) {
		body := routeClasses[route.String()].body
		alone, crowded := newDesk(t, ada), newDesk(t, ada)
		once := alone.request(t, route, body)
		once.Bearer = ada.APIKey
		s.Send(t, once)

		request := crowded.request(t, route, body)
		request.Bearer = ada.APIKey
		first := 0
		answers := together(12, func(int) Response { return s.Send(t, request) })
		for _, answer := range answers {
			if answer.Header.Get("Idempotent-Replayed") == "" {
				first++
				wantDone(t, route, answer)
			}
		}
		if first != 1 {
			t.Errorf("%d answers are no replays, want 1", first)
		}
		for _, answer := range answers {
			wantRepeated(t, wantJSON(t, answers[0]), answer)
		}
		if want, got := recordedUnder(t, s, once.Key), recordedUnder(t, s, request.Key); got != want {
			t.Errorf("%d events of 12 at once, want the %d of one", got, want)
		}
		if want, got := counts(alone.standing(t)), counts(crowded.standing(t)); got != want {
			t.Errorf("%v after 12 at once, want %v as after one", got, want)
		}
	})
}

// counts is how many keys, integrations and novels there are, and events of the novel.
func counts(s standing) [4]int {
	history, _ := s.Novel["history"].([]any)
	return [4]int{len(s.Keys), s.Integrated, s.Published, len(history)}
}

// wantDone wants the status of a first answer: 201 where that is documented, else 200.
func wantDone(t *testing.T, route Route, response Response) map[string]any {
	t.Helper()
	want := http.StatusOK
	if route.Operation.Responses.Status(http.StatusCreated) != nil {
		want = http.StatusCreated
	}
	if response.Status != want {
		t.Fatalf("status %d, want %d\n%s", response.Status, want, response.Body)
	}
	return wantJSON(t, response)
}

func wantJSON(t *testing.T, response Response) map[string]any {
	t.Helper()
	var body map[string]any
	response.WantJSON(t, response.Status, &body)
	return body
}

// wantRepeated wants a repetition's answer to be the first one, but for the API key: that is shown to the first alone.
func wantRepeated(t *testing.T, first map[string]any, again Response) {
	t.Helper()
	body := wantJSON(t, again)
	if replayed := again.Header.Get("Idempotent-Replayed") == "true"; replayed && again.Status != http.StatusOK {
		t.Errorf("status %d of a replay, want 200", again.Status)
	} else if key, shown := body["apiKey"]; shown && (key == nil) != replayed {
		t.Errorf("the API key is %v, in a replay: %v", key != nil, replayed)
	}
	ignored := func(name string, _ any) bool { return name == "apiKey" || slices.Contains(followed, name) }
	if diff := cmp.Diff(first, body, cmpopts.IgnoreMapEntries(ignored)); diff != "" {
		t.Errorf("another answer (-first +again)\n%s", diff)
	}
}

// recordedUnder counts what is on record under an Idempotency-Key, which is the id of the events that the command has
// caused.
func recordedUnder(t *testing.T, s *Service, key string) int {
	t.Helper()
	return value[int](t, s.DatabaseURL, `SELECT count(*) FROM events WHERE event_id = $1`, key)
}

// moved is what a move of a novel answers with.
type moved struct{ NovelID, State string }

// TestRepetitionReportsToday repeats a move after others: it moves nothing back, and says how the novel stands.
func TestRepetitionReportsToday(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	d := newDesk(t, s.NewStaff(t))
	novel, reason := "/api/admin/novels/"+d.novelID, Fields{"reason": "test"}
	d.ada.Post(t, novel+"/approve", "first", reason).WantJSON(t, 200, &moved{})
	d.ada.Post(t, novel+"/reject", "second", reason).WantJSON(t, 200, &moved{})
	second := &Person{Service: s} // another key of the same person
	if err := json.Unmarshal([]byte(s.CLI(t, "staff", "create", d.ada.Name, "--json").Stdout), second); err != nil {
		t.Fatal(err)
	}
	for _, ada := range []*Person{d.ada, second} {
		again := ada.Post(t, novel+"/approve", "first", reason)
		again.WantReplayed(t, true, false)
		var now moved
		if again.WantJSON(t, 200, &now); now.State != "rejected" || now.NovelID != d.novelID {
			t.Errorf("the repetition says %+v, want %s rejected", now, d.novelID)
		}
	}
	if stored := s.Novel(t, d.title); stored.State != "rejected" {
		t.Errorf("state %s, want rejected", stored.State)
	}
}

// together calls send n times at once and returns all answers.
func together(n int, send func(i int) Response) []Response {
	answers := make([]Response, n)
	start := make(chan struct{})
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			<-start
			answers[i] = send(i)
		})
	}
	close(start)
	all.Wait()
	return answers
}
