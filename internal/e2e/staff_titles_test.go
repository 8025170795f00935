package e2e_test

import (
	"net/http"
	"testing"
)

// TestStaffTitlesAsDescribed sends what staff can do about titles to the binary; every exchange is held against
// docs/openapi.yaml, and a partner sees each step at once.
func TestStaffTitlesAsDescribed(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	ada := s.NewStaff(t)
	p := s.NewPartner(t)
	title, key := Unique("Barred"), Key()

	var barred map[string]any
	ada.Post(t, "/api/admin/novels/reject", key, Fields{"novel": title, "reason": "no"}).WantJSON(t, 200, &barred)
	id, _ := barred["novelId"].(string)
	if barred["state"] != "rejected" || barred["owner"] != "none" {
		t.Errorf("barred: %v", barred)
	}
	p.Upsert(t, Key(), Fields{"novel": title}).WantProblem(t, 409, "novel_rejected")
	p.Import(t, Key(), Comment(title)).WantProblem(t, 404, "novel_not_found")
	again := ada.Post(t, "/api/admin/novels/reject", key, Fields{"novel": title, "reason": "never"})
	again.WantReplayed(t, true, true)

	ada.Do(t, 409, http.MethodPatch, "novels/"+id, Fields{"author": "A"})
	ada.Do(t, 409, http.MethodPost, "novels", Fields{"novel": title})
	free := ada.Do(t, 200, http.MethodPost, "novels/"+id+"/approve", Fields{"reason": "yes"})
	if free["state"] != "free" {
		t.Errorf("free: %v", free)
	}
	list := ada.Do(t, 200, http.MethodGet, "novels?state=free&owner=none&text="+title[len("Barred "):], nil)
	if items, _ := list["items"].([]any); len(items) != 1 {
		t.Errorf("list: %v", list)
	}
	if created := p.Upsert(t, Key(), Fields{"novel": title}).WantNovel(t, 201); created.NovelID != id ||
		created.Slug != barred["slug"] {
		t.Errorf("created %+v, barred as %v", created, barred)
	}
	adopted := ada.Do(t, 201, http.MethodPost, "novels", Fields{
		"novel": title, "author": "Murasaki", "genres": []string{"court"}, "coverUrl": "https://example.com/c",
		"synopsis": nil, "reason": "ours",
	})
	if adopted["author"] != "Murasaki" || adopted["owner"] != "host" || adopted["novelId"] != id {
		t.Errorf("adopted: %v", adopted)
	}
	edited := ada.Do(t, 200, http.MethodPatch, "novels/"+id, Fields{
		"author": "Murasaki Shikibu", "language": "ja", "genres": []string{}, "reason": "full name",
	})
	if edited["author"] != "Murasaki Shikibu" || edited["language"] != "ja" {
		t.Errorf("edited: %v", edited)
	}
	ada.Do(t, 400, http.MethodPatch, "novels/"+id, Fields{"novel": "Another"})
	if history, _ := ada.Do(t, 200, http.MethodGet, "novels/"+id, nil)["history"].([]any); len(history) != 6 {
		t.Errorf("history: %v", history)
	}

	name := Unique("Renamed")
	made := ada.Do(t, 201, http.MethodPost, "integrations", Fields{"name": Unique("First")})
	path := "integrations/" + made["integrationId"].(string)
	if renamed := ada.Do(t, 200, http.MethodPatch, path, Fields{"name": name}); renamed["name"] != name {
		t.Errorf("renamed: %v", renamed)
	}
	ada.Do(t, 400, http.MethodGet, "integrations?limit=1&cursor=nonsense", nil)
	if page := ada.Do(t, 200, http.MethodGet, "integrations?limit=1", nil); page["nextCursor"] == nil {
		t.Errorf("page: %v", page)
	}
}
