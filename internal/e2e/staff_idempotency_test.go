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

	"novelgate/internal/testdb"
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

// eachStaffPost runs test for every POST of staff, in a subtest.
func eachStaffPost(t *testing.T, test func(t *testing.T, s *Service, ada *Person, route Route)) {
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
	testdb.SkipShort(t)
	s := Shared(t)
	f := newFixture(t, s.NewStaff(t))
	before := f.state(t)
	for _, route := range staffPosts(t) {
		if !route.NeedsKey() {
			t.Errorf("docs/openapi.yaml does not require an Idempotency-Key of %s", route)
		}
		request := f.request(t, route, routeClasses[route.String()].body)
		request.Bearer, request.Key = f.ada.APIKey, ""
		for _, header := range []http.Header{
			nil, {"Idempotency-Key": {""}}, {"Idempotency-Key": {"a", "b"}}, {"Idempotency-Key": {strings.Repeat("k", 256)}},
		} {
			request.Header = header
			s.Send(t, request).WantProblem(t, 400, "invalid_idempotency_key")
		}
	}
	if diff := cmp.Diff(before, f.state(t)); diff != "" {
		t.Errorf("a command without a key was carried out (-before +after)\n%s", diff)
	}
}

func TestRepeatedCommandOfStaff(t *testing.T) {
	t.Parallel()
	eachStaffPost(t, func(t *testing.T, s *Service, ada *Person, route Route) {
		f := newFixture(t, ada)
		request := f.request(t, route, routeClasses[route.String()].body)
		request.Bearer = ada.APIKey
		first := s.Send(t, request)
		first.WantReplayed(t, false, false)
		answer := wantDone(t, route, first)
		after, recorded := f.state(t), recordedUnder(t, s, request.Key)
		if recorded == 0 {
			t.Error("no event has the key")
		}
		for range 2 {
			again := s.Send(t, request)
			again.WantReplayed(t, true, false)
			wantRepeated(t, answer, again)
		}
		if diff := cmp.Diff(after, f.state(t)); diff != "" {
			t.Errorf("the repetition has changed the state (-once +again)\n%s", diff)
		}
		if got := recordedUnder(t, s, request.Key); got != recorded {
			t.Errorf("%d events after the repetition, want %d", got, recorded)
		}

		// A key is scoped to the path and to the person: with another path or person it is new.
		if strings.Contains(route.Path, "{") {
			elsewhere := newFixture(t, ada).request(t, route, routeClasses[route.String()].body)
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
	var crowd sync.Mutex // held by one route at a time: the service refuses more than 64 requests of staff at once
	eachStaffPost(t, func(t *testing.T, s *Service, ada *Person, route Route) {
		body := routeClasses[route.String()].body
		single, repeated := newFixture(t, ada), newFixture(t, ada)
		once := single.request(t, route, body)
		once.Bearer = ada.APIKey
		s.Send(t, once)

		request := repeated.request(t, route, body)
		request.Bearer = ada.APIKey
		first := 0
		crowd.Lock()
		answers := together(12, func(int) Response { return s.Send(t, request) })
		crowd.Unlock()
		for _, answer := range answers {
			if answer.Header.Get("Idempotent-Replayed") == "" {
				first++
				wantDone(t, route, answer)
			}
		}
		if first != 1 {
			t.Errorf("%d answers are not replays, want 1", first)
		}
		for _, answer := range answers {
			wantRepeated(t, wantJSON(t, answers[0]), answer)
		}
		if want, got := recordedUnder(t, s, once.Key), recordedUnder(t, s, request.Key); got != want {
			t.Errorf("%d events of 12 concurrent requests, want %d as of one", got, want)
		}
		if want, got := counts(single.state(t)), counts(repeated.state(t)); got != want {
			t.Errorf("%v after 12 concurrent requests, want %v as after one", got, want)
		}
	})
}

// counts returns the numbers of keys, integrations, novels, and events of the pending novel.
func counts(s state) [4]int {
	history, _ := s.Novel["history"].([]any)
	return [4]int{len(s.Keys), s.Integrations, s.Novels, len(history)}
}

// wantDone checks the status of a first answer: 201 where that is documented, otherwise 200.
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

// wantRepeated checks that the answer to a repetition equals the first one, except for the API key, which is shown
// once.
func wantRepeated(t *testing.T, first map[string]any, again Response) {
	t.Helper()
	body := wantJSON(t, again)
	if replayed := again.Header.Get("Idempotent-Replayed") == "true"; replayed && again.Status != http.StatusOK {
		t.Errorf("status %d of a replay, want 200", again.Status)
	} else if key, shown := body["apiKey"]; shown && (key == nil) != replayed {
		t.Errorf("the API key is %v, in a replay: %v", key != nil, replayed)
	}
	ignored := func(name string, _ any) bool { return name == "apiKey" || slices.Contains(projectedMembers, name) }
	if diff := cmp.Diff(first, body, cmpopts.IgnoreMapEntries(ignored)); diff != "" {
		t.Errorf("another answer (-first +again)\n%s", diff)
	}
}

// recordedUnder counts the events of an Idempotency-Key, which is their event_id.
func recordedUnder(t *testing.T, s *Service, key string) int {
	t.Helper()
	return value[int](t, s.DatabaseURL, `SELECT count(*) FROM events WHERE event_id = $1`, key)
}

// novelState is the answer to a change of a novel's state.
type novelState struct{ NovelID, State string }

// TestRepetitionReportsCurrentState repeats an approval after a rejection: it changes nothing, and answers with the
// current state.
func TestRepetitionReportsCurrentState(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	f := newFixture(t, s.NewStaff(t))
	novel, reason := "/api/admin/novels/"+f.novelID, Fields{"reason": "test"}
	f.ada.Post(t, novel+"/approve", "first", reason).WantJSON(t, 200, &novelState{})
	f.ada.Post(t, novel+"/reject", "second", reason).WantJSON(t, 200, &novelState{})
	second := &Person{Service: s} // another key of the same person
	if err := json.Unmarshal([]byte(s.CLI(t, "staff", "create", f.ada.Name, "--json").Stdout), second); err != nil {
		t.Fatal(err)
	}
	for _, ada := range []*Person{f.ada, second} {
		again := ada.Post(t, novel+"/approve", "first", reason)
		again.WantReplayed(t, true, false)
		var now novelState
		if again.WantJSON(t, 200, &now); now.State != "rejected" || now.NovelID != f.novelID {
			t.Errorf("the repetition says %+v, want %s rejected", now, f.novelID)
		}
	}
	if stored := s.Novel(t, f.title); stored.State != "rejected" {
		t.Errorf("state %s, want rejected", stored.State)
	}
}

// together calls send n times concurrently and returns all answers.
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
