package e2e_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"novelgate/internal/testdb"
)

// limited registers an integration with the limits, the default ones where they are left out, and a novel that it may
// comment on.
func limited(t *testing.T, s *Service, limits Fields) (*Partner, string) {
	t.Helper()
	title := Unique("Limited")
	s.Moderate(t, "publish", title)
	return s.NewPartnerWith(t, Fields{"capabilities": []string{"novels", "posts"}}.With(limits)), title
}

// wantLimited wants 429 and returns Retry-After.
func wantLimited(t *testing.T, response Response, name string) time.Duration {
	t.Helper()
	response.WantProblem(t, 429, "rate_limited")
	seconds, err := strconv.Atoi(response.Header.Get("Retry-After"))
	if err != nil || seconds < 1 || seconds > 61 {
		t.Errorf("Retry-After %q, want 1 to 61 seconds", response.Header.Get("Retry-After"))
	}
	if left := remaining(t, response, name); left != 0 {
		t.Errorf("%d remain, want 0", left)
	}
	return time.Duration(seconds) * time.Second
}

// remaining returns r of the RateLimit header.
func remaining(t *testing.T, response Response, name string) int {
	t.Helper()
	header := response.Header.Get("RateLimit")
	found := regexp.MustCompile(`"` + name + `";r=(\d+);t=(\d+)`).FindStringSubmatch(header)
	if found == nil {
		t.Fatalf("RateLimit %q says nothing about %s", header, name)
	}
	left, _ := strconv.Atoi(found[1]) // digits by the expression above
	return left
}

// TestSixtyPostsAMinute moves the window into the past instead of waiting: commands/ratelimit tests the function that
// slides it, to the microsecond.
func TestSixtyPostsAMinute(t *testing.T) {
	t.Parallel()
	p, title := limited(t, Shared(t), nil)
	send := func() Response { return p.Import(t, Key(), Comment(title)) }
	for range 60 {
		send().WantPost(t, 201)
	}
	wait := wantLimited(t, send(), "posts")
	value[string](t, p.Service.DatabaseURL, `UPDATE rate_limits SET charged_at = ARRAY(SELECT at - $2::interval FROM unnest(charged_at) AS at)
		WHERE integration_id = $1 AND operation = 'posts' RETURNING operation::text`, p.IntegrationID, wait)
	testdb.Eventually(t, "a client that waited for Retry-After is served", func() bool {
		return send().Status == http.StatusCreated
	})
}

func TestDefaultLimits(t *testing.T) {
	t.Parallel()
	p, title := limited(t, Shared(t), nil)
	shown := p.Service.Integration(t, "show", p.Name)
	if shown.PostsPerMinute != 60 || shown.NovelsPerMinute != 60 {
		t.Errorf("limits %d and %d, want 60 and 60", shown.PostsPerMinute, shown.NovelsPerMinute)
	}
	for path, test := range map[string]struct {
		body   Fields
		policy string
	}{
		PostsPath:  {Comment(title), `"posts";q=60;w=60`},
		NovelsPath: {Fields{"novel": title}, `"novels";q=60;w=60`},
	} {
		response := p.Service.Send(t, p.Request(path, Key(), test.body.JSON(t)))
		if got := response.Header.Get("RateLimit-Policy"); !strings.Contains(got, test.policy) {
			t.Errorf("RateLimit-Policy %q, want %s", got, test.policy)
		}
	}
}

func TestWhatCountsAsAPost(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	for name, test := range map[string]struct {
		send   func(t *testing.T, p *Partner, title string) Response
		status int
		counts bool
	}{
		"replay": {func(t *testing.T, p *Partner, title string) Response {
			return p.Import(t, "first", Comment(title))
		}, 200, true},
		"novel not found": {func(t *testing.T, p *Partner, _ string) Response {
			return p.Import(t, Key(), Comment(Unique("Unknown")))
		}, 404, true},
		"malformed body": {func(t *testing.T, p *Partner, _ string) Response {
			return p.Service.Send(t, p.Request(PostsPath, Key(), []byte("{")))
		}, 400, false},
		"other operation": {func(t *testing.T, p *Partner, title string) Response {
			return p.Upsert(t, Key(), Fields{"novel": title})
		}, 403, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			title := Unique("Counted")
			s.Moderate(t, "publish", title)
			p := s.NewPartnerWith(t, Fields{"capabilities": []string{"posts"}, "postsPerMinute": 4})
			p.Import(t, "first", Comment(title)).WantPost(t, 201)
			for range 2 {
				if response := test.send(t, p, title); response.Status != test.status {
					t.Fatalf("status %d, want %d\n%s", response.Status, test.status, response.Body)
				}
			}
			left := 3
			if test.counts {
				left = 1
			}
			for range left {
				p.Import(t, Key(), Comment(title)).WantPost(t, 201)
			}
			wantLimited(t, p.Import(t, Key(), Comment(title)), "posts")
		})
	}
}

func TestWhatCountsAsACreation(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	foreign, canonical := Unique("Foreign"), Unique("Canonical")
	s.NewPartner(t).Upsert(t, Key(), Fields{"novel": foreign}).WantNovel(t, 201)
	s.Moderate(t, "publish", canonical)

	p, _ := limited(t, s, Fields{"novelsPerMinute": 2, "postsPerMinute": 1000})
	first, byComment, refused := Unique("First"), Unique("By a comment"), Unique("Refused")
	p.Upsert(t, "first", Fields{"novel": first}).WantNovel(t, 201)
	free := func() { // none of these is a creation
		t.Helper()
		p.Upsert(t, "first", Fields{"novel": first}).WantNovel(t, 200)
		p.Upsert(t, Key(), everything(first)).WantNovel(t, 200)
		p.Upsert(t, Key(), everything(foreign)).WantNovel(t, 200)
		p.Upsert(t, Key(), everything(canonical)).WantNovel(t, 200)
		p.Upsert(t, Key(), Fields{"novel": ""}).WantInvalid(t, "novel")
		p.Import(t, Key(), Comment(canonical)).WantPost(t, 201)
	}
	free()
	free()
	p.Import(t, "k", Comment(byComment)).WantPost(t, 201)

	wantLimited(t, p.Upsert(t, "later", Fields{"novel": refused}), "novels")
	p.Import(t, "later", Comment(refused)).WantProblem(t, 429, "rate_limited")
	s.Refused(t, "novel", "show", refused)
	free()
	p.Import(t, "k", Comment(byComment)).WantPost(t, 200)
	p.Import(t, Key(), Comment(byComment)).WantPost(t, 201)

	// The refusals have not used their keys.
	s.Integration(t, "limit", p.IntegrationID, "--novels-per-minute", "1000")
	testdb.Eventually(t, "the raised limit is effective", func() bool {
		return p.Import(t, "later", Comment(refused)).Status == http.StatusCreated
	})
	response := p.Upsert(t, "later", Fields{"novel": refused})
	response.WantReplayed(t, false, false)
	response.WantNovel(t, 200)
}

func TestLimitsBelongToTheIntegration(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	p, title := limited(t, s, Fields{"postsPerMinute": 2, "novelsPerMinute": 1})
	other, _ := limited(t, s, Fields{"postsPerMinute": 2, "novelsPerMinute": 1})
	second := &Partner{NewIntegration: p.NewIntegration, Service: s}
	second.APIKey = s.IssueKey(t, p.IntegrationID).APIKey

	p.Import(t, Key(), Comment(title)).WantPost(t, 201)
	second.Import(t, Key(), Comment(title)).WantPost(t, 201)
	wantLimited(t, p.Import(t, Key(), Comment(title)), "posts")
	wantLimited(t, second.Import(t, Key(), Comment(title)), "posts")

	// the other operation is free
	p.Upsert(t, Key(), Fields{"novel": Unique("One")}).WantNovel(t, 201)
	wantLimited(t, second.Upsert(t, Key(), Fields{"novel": Unique("Two")}), "novels")

	other.Import(t, Key(), Comment(title)).WantPost(t, 201)
	other.Upsert(t, Key(), Fields{"novel": Unique("Three")}).WantNovel(t, 201)
}

func TestUpdatesCanBeLimited(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	p, _ := limited(t, s, Fields{"novelUpdatesPerMinute": 2})
	title := Unique("Updated")
	p.Upsert(t, "create", Fields{"novel": title}).WantNovel(t, 201)
	for i := range 2 {
		response := p.Upsert(t, fmt.Sprint("update-", i), Fields{"novel": title, "synopsis": fmt.Sprint(i)})
		response.WantNovel(t, 200)
		if left := remaining(t, response, "novelUpdates"); left != 1-i {
			t.Errorf("%d updates remain, want %d", left, 1-i)
		}
	}
	refused := Key()
	wantLimited(t, p.Upsert(t, refused, Fields{"novel": title, "synopsis": "refused"}), "novelUpdates")
	p.Upsert(t, "create", Fields{"novel": title}).WantNovel(t, 200) // a retry
	p.Import(t, Key(), Comment(title)).WantPost(t, 201)
	var me struct {
		Limits struct {
			NovelUpdates *struct{ PerMinute, Remaining int } `json:"novelUpdates"`
		} `json:"limits"`
	}
	if p.Inquire(t, "/api/integrations/me").WantJSON(t, 200, &me); me.Limits.NovelUpdates == nil ||
		me.Limits.NovelUpdates.PerMinute != 2 || me.Limits.NovelUpdates.Remaining != 0 {
		t.Errorf("limit of updates: %+v", me.Limits.NovelUpdates)
	}

	s.Integration(t, "limit", p.Name, "--novel-updates-per-minute", "off")
	testdb.Eventually(t, "updates are free, for the refused key too", func() bool {
		return p.Upsert(t, refused, Fields{"novel": title, "synopsis": "refused"}).Status == http.StatusOK
	})
	if shown := s.Novel(t, title); shown.Synopsis != "refused" {
		t.Errorf("synopsis %q", shown.Synopsis)
	}
}

func TestLimitIsSharedByReplicas(t *testing.T) {
	t.Parallel()
	database := testdb.New(t)
	replicas := []*Service{Start(t, database), Start(t, database)}
	p, title := limited(t, replicas[0], Fields{"postsPerMinute": 10})
	answers := together(40, func(i int) Response {
		at := &Partner{NewIntegration: p.NewIntegration, Service: replicas[i%2]}
		return at.Import(t, Key(), Comment(title))
	})
	wantStatuses(t, map[int]int{201: 10, 429: 30}, answers)
}
