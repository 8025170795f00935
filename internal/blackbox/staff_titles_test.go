package blackbox_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"novelgate/internal/blackbox"
)

// TestStaffTitlesAsDescribed sends what staff can do about titles to the binary; every exchange is held against
// docs/openapi.yaml, and a partner sees each step at once.
func TestStaffTitlesAsDescribed(t *testing.T) {
	t.Parallel()
	s := blackbox.Shared(t)
	var desk struct {
		APIKey string `json:"apiKey"`
	}
	if out := s.CLI(t, "staff", "create", blackbox.Unique("Ada"), "--json"); json.Unmarshal([]byte(out.Stdout),
		&desk) != nil || desk.APIKey == "" {
		t.Fatalf("no staff key: %+v", out)
	}
	send := func(method, path, key, body string, status int) map[string]any {
		t.Helper()
		r := blackbox.Request{Method: method, Path: path, Bearer: desk.APIKey, Key: key}
		if body != "" {
			r.ContentType, r.Body = "application/json", []byte(body)
		}
		response := s.Send(t, r)
		var got map[string]any
		if err := json.Unmarshal(response.Body, &got); err != nil || response.Status != status {
			t.Fatalf("%s %s: %d %s, want %d", method, path, response.Status, response.Body, status)
		}
		return got
	}
	const novels = "/api/admin/novels"
	p := s.NewPartner(t)
	title, key := blackbox.Unique("Barred"), blackbox.Key()

	barred := send(http.MethodPost, novels+"/reject", key, `{"novel":"`+title+`","reason":"no"}`, http.StatusOK)
	id, _ := barred["novelId"].(string)
	if barred["state"] != "rejected" || barred["owner"] != "none" {
		t.Errorf("barred: %v", barred)
	}
	p.Upsert(t, blackbox.Key(), blackbox.Fields{"novel": title}).WantProblem(t, 409, "novel_rejected")
	p.Import(t, blackbox.Key(), blackbox.Comment(title)).WantProblem(t, 404, "novel_not_found")
	again := s.Send(t, blackbox.Request{
		Method: http.MethodPost, Path: novels + "/reject", Bearer: desk.APIKey, Key: key, ContentType: "application/json",
		Body: []byte(`{"novel":"` + title + `","reason":"never"}`),
	})
	again.WantReplayed(t, true, true)

	send(http.MethodPatch, novels+"/"+id, "", `{"author":"A"}`, http.StatusConflict)
	send(http.MethodPost, novels, blackbox.Key(), `{"novel":"`+title+`"}`, http.StatusConflict)
	if free := send(http.MethodPost, novels+"/"+id+"/approve", blackbox.Key(), `{"reason":"yes"}`,
		http.StatusOK); free["state"] != "free" {
		t.Errorf("free: %v", free)
	}
	if list, _ := send(http.MethodGet, novels+"?state=free&owner=none&text="+title[len("Barred "):], "", "",
		http.StatusOK)["items"].([]any); len(list) != 1 {
		t.Errorf("list: %v", list)
	}
	if created := p.Upsert(t, blackbox.Key(), blackbox.Fields{"novel": title}).WantNovel(t, 201); created.NovelID != id ||
		created.Slug != barred["slug"] {
		t.Errorf("created %+v, barred as %v", created, barred)
	}
	adopted := send(http.MethodPost, novels, blackbox.Key(),
		`{"novel":"`+title+
			`","author":"Murasaki","genres":["court"],"coverUrl":"https://example.com/c","synopsis":null,"reason":"ours"}`,
		http.StatusCreated)
	if adopted["author"] != "Murasaki" || adopted["owner"] != "host" || adopted["novelId"] != id {
		t.Errorf("adopted: %v", adopted)
	}
	edited := send(http.MethodPatch, novels+"/"+id, "",
		`{"author":"Murasaki Shikibu","language":"ja","genres":[],"reason":"full name"}`, http.StatusOK)
	if edited["author"] != "Murasaki Shikibu" || edited["language"] != "ja" {
		t.Errorf("edited: %v", edited)
	}
	send(http.MethodPatch, novels+"/"+id, "", `{"novel":"Another"}`, http.StatusBadRequest)
	if history, _ := send(http.MethodGet, novels+"/"+id, "", "", http.StatusOK)["history"].([]any); len(history) != 6 {
		t.Errorf("history: %v", history)
	}

	name := blackbox.Unique("Renamed")
	made := send(http.MethodPost, "/api/admin/integrations", blackbox.Key(), `{"name":"`+blackbox.Unique("First")+`"}`,
		http.StatusCreated)
	path := "/api/admin/integrations/" + made["integrationId"].(string)
	if renamed := send(http.MethodPatch, path, "", `{"name":"`+name+`"}`, http.StatusOK); renamed["name"] != name {
		t.Errorf("renamed: %v", renamed)
	}
	send(http.MethodGet, "/api/admin/integrations?limit=1&cursor=nonsense", "", "", http.StatusBadRequest)
	if page := send(http.MethodGet, "/api/admin/integrations?limit=1", "", "", http.StatusOK); page["nextCursor"] == nil {
		t.Errorf("page: %v", page)
	}
}
