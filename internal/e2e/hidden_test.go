package e2e_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"testing"
)

// TestStaffModerateAComment follows one comment and its author, whose identifier has a meaning in a path, through all
// that staff can do about them. Every exchange is held against the description.
func TestStaffModerateAComment(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	p, c := s.NewPartner(t), s.NewStaff(t)
	title, why := Unique("Moderated"), Fields{"reason": "because"}
	const external = "../user 1/é%2F?#"
	comment := Comment(title).With(Fields{"uuid": external, "chapterNumber": 1.5})
	made := p.Import(t, "first", comment).WantPost(t, 201)
	author, post := "integrations/"+p.IntegrationID+"/authors/"+url.PathEscape(external), "posts/"+made.PostID
	state := func() (string, any) {
		t.Helper()
		response := s.Send(t, Request{
			Method: http.MethodGet, Path: "/api/integrations/deliveries/first?operation=posts", Bearer: p.APIKey,
		})
		var delivery map[string]any
		if err := json.Unmarshal(response.Body, &delivery); err != nil || response.Status != http.StatusOK {
			t.Fatalf("%d %s: %v", response.Status, response.Body, err)
		}
		seen, _ := delivery["postState"].(string)
		return seen, delivery["reason"]
	}

	c.Do(t, 200, http.MethodPut, author+"/member", Fields{"memberId": "member-1"})
	var attributed int
	s.Projected(t, []any{&attributed}, `SELECT 1 FROM analytics.posts WHERE post_id = $1 AND member_id = 'member-1'`,
		made.PostID)
	s.Projected(t, []any{&attributed},
		`SELECT 1 FROM analytics.authors WHERE external_uuid = $1 AND integration_id = $2 AND member_id = 'member-1'`,
		external, p.IntegrationID)
	if shown := c.Do(t, 200, http.MethodGet, author, nil); shown["displayName"] != "Marlow" ||
		shown["memberId"] != "member-1" || shown["uuid"] != external {
		t.Errorf("author: %v", shown)
	}
	c.Do(t, 200, http.MethodPost, author+"/block", why)
	p.Import(t, "second", comment).WantProblem(t, 403, "author_blocked")
	p.Import(t, "third", comment.With(Fields{"novel": Unique("Unknown")})).WantProblem(t, 403,
		"author_blocked")
	if again := p.Import(t, "first", comment).WantPost(t, 200); again.PostID != made.PostID {
		t.Errorf("replayed as %s, want %s", again.PostID, made.PostID)
	}
	c.Do(t, 409, http.MethodPost, author+"/block", why)
	c.Do(t, 200, http.MethodPost, author+"/unblock", why)
	p.Import(t, "second", comment).WantPost(t, 201)

	c.Do(t, 200, http.MethodPost, post+"/hide", why)
	c.Do(t, 409, http.MethodPost, post+"/hide", why)
	if seen, reason := state(); seen != "hidden" || reason != "because" {
		t.Errorf("the partner sees %s, %v", seen, reason)
	}
	s.Projected(t, []any{&attributed}, `SELECT 1 FROM analytics.posts WHERE post_id = $1 AND hidden AND content IS NULL`,
		made.PostID)
	c.Do(t, 200, http.MethodPost, post+"/restore", why)
	c.Do(t, 200, http.MethodPost, author+"/hide-posts", why)
	if shown := c.Do(t, 200, http.MethodGet, post, nil); shown["state"] != "hidden" || shown["hiddenBy"] != "author" ||
		shown["content"] != "A comment." || shown["chapterNumber"] != 1.5 {
		t.Errorf("post: %v", shown)
	}
	c.Do(t, 200, http.MethodPost, author+"/restore-posts", why)
	c.Do(t, 409, http.MethodPost, author+"/restore-posts", why)
	if seen, reason := state(); seen != "visible" || reason != nil {
		t.Errorf("the partner sees %s, %v", seen, reason)
	}
	if list := c.Do(t, 200, http.MethodGet, "integrations/"+p.IntegrationID+"/authors?linked=true&limit=1", nil); len(
		list["items"].([]any)) != 1 || list["nextCursor"] != nil {
		t.Errorf("authors: %v", list)
	}
	c.Do(t, 204, http.MethodDelete, author+"/member?reason=asked", nil)
	c.Do(t, 409, http.MethodDelete, author+"/member", nil)
	c.Do(t, 404, http.MethodGet, "posts/"+p.IntegrationID, nil)
	c.Do(t, 405, http.MethodPatch, author+"/member", Fields{})
	c.Do(t, 400, http.MethodPut, "integrations/"+p.IntegrationID+"/authors/%00/member", Fields{"memberId": "m"})
}
