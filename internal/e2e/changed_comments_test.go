package e2e_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"novelgate/internal/testdb"
)

// Changed is the body of a successful change of a comment.
type Changed struct {
	PostID  string `json:"postId"`
	URL     string `json:"url"`
	Applied bool   `json:"applied"`
}

// Change sends an edit, a withdrawal (without a body) or a report of a comment.
func (p *Partner) Change(t testing.TB, method, comment, suffix, key string, body Fields) Response {
	t.Helper()
	request := p.Request(PostsPath+"/"+url.PathEscape(comment)+suffix, key, nil)
	if request.Method = method; body != nil {
		request.Body = body.JSON(t)
	} else {
		request.ContentType = ""
	}
	return p.Service.Send(t, request)
}

func (p *Partner) Edit(t testing.TB, comment, key string, body Fields) Response {
	t.Helper()
	return p.Change(t, http.MethodPatch, comment, "", key, body)
}

func (p *Partner) Withdraw(t testing.TB, comment, key string) Response {
	t.Helper()
	return p.Change(t, http.MethodDelete, comment, "", key, nil)
}

func (p *Partner) Report(t testing.TB, comment, key string, body Fields) Response {
	t.Helper()
	return p.Change(t, http.MethodPost, comment, "/reports", key, body)
}

func (r Response) WantChanged(t testing.TB) Changed {
	t.Helper()
	return want[Changed](t, r, http.StatusOK)
}

// page waits until a page has one text and lacks another, and returns it.
func page(t testing.TB, address, has, lacks string) (text string) {
	t.Helper()
	testdb.Eventually(t, fmt.Sprintf("%s has %q, and not %q", address, has, lacks), func() bool {
		_, text = Get(t, address)
		return strings.Contains(text, has) && !strings.Contains(text, lacks)
	})
	return text
}

// TestCommentThatChanges: a comment is edited, reported and withdrawn. Readers see each state, retries change nothing,
// and the words are gone from the database.
func TestCommentThatChanges(t *testing.T) {
	t.Parallel()
	s := Start(t, testdb.New(t))
	p, other, ada := s.NewPartner(t), s.NewPartner(t), s.NewStaff(t)
	novel := Unique("A novel")
	const key = "thread/1%2F" // keys may hold slashes
	original := Comment(novel).With(Fields{"content": "firstwords", "username": "Plantedname", "uuid": "planted-uuid"})
	post := p.Import(t, key, original).WantPost(t, http.StatusCreated)
	staying := Comment(novel).With(Fields{"content": "staying words", "uuid": "staying-uuid"})
	stays := p.Import(t, Key(), staying).WantPost(t, http.StatusCreated)
	page(t, post.URL, "firstwords", "edited")

	edit := Fields{"content": "secondwords", "chapterNumber": 7, "timestamp": "2026-03-01T10:00:00Z"}
	if changed := p.Edit(t, key, "e1", edit).WantChanged(t); changed != (Changed{post.PostID, post.URL, true}) {
		t.Errorf("%+v", changed)
	}
	if !strings.Contains(page(t, post.URL, "secondwords", "firstwords"), `class="edited"`) {
		t.Error("readers are not told of the edit")
	}
	page(t, strings.Split(post.URL, "?")[0]+"?chapter=7", "secondwords", "staying words")
	p.Edit(t, key, "e1", edit).WantReplayed(t, true, false)
	p.Edit(t, key, "e1", Fields{"content": "thirdwords"}).WantReplayed(t, true, true)
	late := p.Edit(t, key, "e0", Fields{"content": "earlierwords", "timestamp": "2026-02-01T10:00:00Z"})
	if late.WantChanged(t).Applied {
		t.Error("an edit before the latest one is applied")
	}
	p.Edit(t, key, "e2", Fields{"chapterNumber": nil}).WantChanged(t)
	page(t, post.URL, "secondwords", "Chapter 7")
	for _, wrong := range []struct {
		body  Fields
		field string
	}{
		{Fields{}, "content"},
		{Fields{"content": "<b>x</b>"}, "content"},
		{Fields{"content": " "}, "content"},
		{Fields{"chapterNumber": -1}, "chapterNumber"},
		{Fields{"content": "x", "timestamp": "yesterday"}, "timestamp"},
	} {
		p.Edit(t, key, Key(), wrong.body).WantInvalid(t, wrong.field)
	}
	p.Edit(t, "unknown", Key(), edit).WantProblem(t, http.StatusNotFound, "not_found")
	other.Edit(t, key, Key(), edit).WantProblem(t, http.StatusNotFound, "not_found")
	other.Withdraw(t, key, Key()).WantProblem(t, http.StatusNotFound, "not_found")
	p.Edit(t, key, "", edit).WantProblem(t, http.StatusBadRequest, "invalid_idempotency_key")

	// Readers of both partners report it.
	other.Report(t, post.PostID, "r1", Fields{"reason": "spoiler", "detail": "plantedetail", "reports": 3}).WantChanged(t)
	p.Report(t, key, "r2", Fields{"reason": "abuse"}).WantChanged(t)
	p.Report(t, key, Key(), Fields{"reason": "boring"}).WantInvalid(t, "reason")
	p.Report(t, key, Key(), Fields{"reason": "spam", "reports": 0}).WantInvalid(t, "reports")
	other.Report(t, "01234567-89ab-8def-8123-456789abcdef", Key(), Fields{"reason": "spam"}).
		WantProblem(t, http.StatusNotFound, "not_found")
	if shown := ada.Get(t, "/api/admin/posts/"+post.PostID); !strings.Contains(string(shown.Body), `"reports":4`) {
		t.Errorf("staff see %s", shown.Body)
	}
	ada.Post(t, "/api/admin/posts/"+post.PostID+"/dismiss-reports", Key(), Fields{"reason": "fine"}).
		WantJSON(t, http.StatusOK, &struct{}{})
	ada.Post(t, "/api/admin/posts/"+post.PostID+"/dismiss-reports", Key(), Fields{"reason": "fine"}).
		WantProblem(t, http.StatusConflict, "invalid_transition")
	for _, reporter := range []*Partner{p, other} {
		testdb.Eventually(t, "the reporter is told", func() bool {
			return strings.Contains(string(reporter.Get(t, "/api/integrations/changes").Body), "report.dismissed")
		})
	}
	if told := other.Get(t, "/api/integrations/changes"); strings.Contains(string(told.Body), "thread/1") {
		t.Errorf("another partner is told the key: %s", told.Body)
	}

	// Deliveries of all kinds are found.
	for operation, key := range map[string]string{"edits": "e1", "reports": "r2"} {
		found := p.Get(t, "/api/integrations/deliveries/"+key+"?operation="+operation)
		if found.Status != http.StatusOK || !strings.Contains(string(found.Body), post.PostID) {
			t.Errorf("%s: %d %s", operation, found.Status, found.Body)
		}
		missing := p.Post(t, "/api/integrations/deliveries/reconcile", "",
			Fields{"operation": operation, "idempotencyKeys": []string{key, "unknown"}})
		if !strings.Contains(string(missing.Body), `"missing":["unknown"]`) {
			t.Errorf("%s: %s", operation, missing.Body)
		}
	}

	// Who reported a comment of another partner is told that staff have hidden it with its author.
	author := "/api/admin/integrations/" + p.IntegrationID + "/authors/staying-uuid"
	other.Report(t, stays.PostID, "r3", Fields{"reason": "spam"}).WantChanged(t)
	ada.Post(t, author+"/hide-posts", Key(), Fields{"reason": "r"}).WantJSON(t, http.StatusOK, &struct{}{})
	hidden := other.Get(t, "/api/integrations/deliveries/r3?operation=reports")
	if !strings.Contains(string(hidden.Body), `"postState":"hidden"`) {
		t.Errorf("%s", hidden.Body)
	}
	ada.Post(t, author+"/restore-posts", Key(), Fields{"reason": "r"}).WantJSON(t, http.StatusOK, &struct{}{})

	// With a reply it leaves a tombstone, without one nothing.
	lone := p.Import(t, "lone", original).WantPost(t, http.StatusCreated)
	p.Import(t, Key(), Comment(novel).With(Fields{"content": "reply words", "parent_uuid": key})).
		WantPost(t, http.StatusCreated)
	page(t, post.URL, "reply words", "deleted by its author")
	p.Withdraw(t, key, "w1").WantChanged(t)
	p.Withdraw(t, "lone", "w2").WantChanged(t)
	text := page(t, post.URL, "deleted by its author", "secondwords")
	if strings.Contains(text, lone.PostID) || strings.Contains(text, "Plantedname") ||
		!strings.Contains(text, "reply words") {
		t.Errorf("after the withdrawals:\n%s", text)
	}
	p.Withdraw(t, key, "w1").WantReplayed(t, true, false)
	p.Withdraw(t, key, "w3").WantChanged(t)
	withdrawn := p.Get(t, "/api/integrations/deliveries/w1?operation=withdrawals")
	if !strings.Contains(string(withdrawn.Body), `"postState":"withdrawn"`) {
		t.Errorf("%s", withdrawn.Body)
	}
	again := p.Import(t, key, original)
	again.WantReplayed(t, true, false)
	if replayed := again.WantPost(t, http.StatusOK); replayed.PostID != post.PostID || replayed.ThreadID != post.ThreadID {
		t.Errorf("a retry of the delivery: %+v", replayed)
	}
	p.Edit(t, key, "e1", edit).WantReplayed(t, true, false)
	p.Edit(t, key, Key(), edit).WantProblem(t, http.StatusGone, "gone")
	p.Report(t, key, Key(), Fields{"reason": "spam"}).WantProblem(t, http.StatusGone, "gone")
	ada.Post(t, "/api/admin/posts/"+post.PostID+"/hide", Key(), Fields{"reason": "r"}).
		WantProblem(t, http.StatusConflict, "invalid_transition")
	page(t, post.URL, "deleted by its author", "secondwords")
	testdb.Eventually(t, "no word is left", func() bool {
		held := testdb.FindWords(t, s.DatabaseURL, "firstwords", "secondwords", "earlierwords", "plantedetail", "Plantedname",
			"planted-uuid")
		return len(held) == 0
	})
	if _, text := Get(t, stays.URL); !strings.Contains(text, "staying words") {
		t.Error("other comments are gone")
	}
	awaitSigned(t, s.DatabaseURL)
	s.MustCLI(t, "events", "verify")
}

// TestChangesInBulk: comments with their edits and withdrawals, in an order in which changes come first.
func TestChangesInBulk(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	p := s.NewImporter(t)
	novel, prefix := Unique("Bulk of changes"), Key()
	change := func(operation, key, post string, body Fields) string {
		line := Fields{"operation": operation, "idempotencyKey": prefix + key, "post": prefix + post}
		if body != nil {
			line["body"] = body
		}
		return string(line.JSON(t)) + "\n"
	}
	comment := func(key string) string { return PostLine(t, prefix+key, Comment(novel)) }
	lines := change("edits", "e2", "a", Fields{"content": "newest", "timestamp": "2026-03-02T00:00:00Z"}) +
		change("edits", "e1", "a", Fields{"content": "newer", "timestamp": "2026-03-01T00:00:00Z"}) +
		change("withdrawals", "w", "b", nil) + comment("a") + comment("b") +
		change("edits", "late", "b", Fields{"content": "neverthere"}) + change("edits", "no", "c", Fields{"content": "x"}) +
		change("edits", "bad", "a", Fields{}) + change("withdrawals", "nokey", "", nil)
	for round := range 2 {
		outcomes := p.Bulk(t, lines)
		for i, status := range []int{200, 200, 200, 201, 201, 410, 404, 400, 404} {
			if round > 0 && status == 201 {
				status = 200
			}
			if outcomes[i].Status != status {
				t.Errorf("round %d, line %d: %+v %+v", round, i+1, outcomes[i], outcomes[i].Problem)
			}
		}
		if outcomes[0].PostID != outcomes[3].PostID || outcomes[0].Replayed != (round > 0) {
			t.Errorf("round %d: %+v", round, outcomes[0])
		}
		page(t, outcomes[3].URL, "newest", "neverthere")
	}
}
