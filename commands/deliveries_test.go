package commands_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"novelgate/aggregates/novel"
	"novelgate/aggregates/principal"
	"novelgate/commands/staff"
	"novelgate/internal/testdb"
)

func TestDeliveryOfNovel(t *testing.T) {
	t.Parallel()
	s := newService(t)
	p, other := s.partner(t, "Partner", principal.Change{}), s.partner(t, "Other", principal.Change{})
	const key = `a/b?c%"d#..\`
	created := p.upsert(t, key, "Genji")
	p.upsert(t, "second", "GENJI")

	want := map[string]any{
		"operation": "novels", "idempotencyKey": key, "novelId": created["novelId"], "slug": "genji", "url": created["url"],
		"state": "approved", "reason": nil,
	}
	check := func() {
		t.Helper()
		for _, key := range []string{key, "second"} {
			status, got := p.delivery(t, "novels", key)
			received, err := time.Parse(time.RFC3339Nano, fmt.Sprint(got["receivedAt"]))
			if err != nil || time.Since(received).Abs() > time.Hour || !strings.HasSuffix(fmt.Sprint(got["receivedAt"]), "Z") {
				t.Errorf("receivedAt %v: %v", got["receivedAt"], err)
			}
			delete(got, "receivedAt")
			want["idempotencyKey"] = key
			if diff := cmp.Diff(want, got); status != http.StatusOK || diff != "" {
				t.Errorf("%d (-want +got)\n%s", status, diff)
			}
		}
	}
	check()
	for _, reason := range []string{"first", "Not ours."} {
		testdb.Must(s.staff.RejectNovel(t.Context(), "Genji", reason))(t)
		want["state"], want["reason"] = "rejected", reason
		check()
		testdb.Must(s.staff.ApproveNovel(t.Context(), "Genji", "again"))(t)
		want["state"], want["reason"] = "approved", nil
		check()
	}
	testdb.Must(s.staff.PublishNovel(t.Context(), "Genji", novel.Fields{}, ""))(t)
	want["state"] = "published"
	check()

	// Other outcomes, the other operation and another integration have no such delivery.
	p.upsert(t, "canonical", "Genji")
	p.upsert(t, "mine", "Heike")
	other.upsert(t, "foreign", "Heike")
	for name, ask := range map[string]func() (int, map[string]any){
		"canonical":             func() (int, map[string]any) { return p.delivery(t, "novels", "canonical") },
		"foreign":               func() (int, map[string]any) { return other.delivery(t, "novels", "foreign") },
		"never sent":            func() (int, map[string]any) { return p.delivery(t, "novels", "never") },
		"other operation":       func() (int, map[string]any) { return p.delivery(t, "posts", "second") },
		"another's":             func() (int, map[string]any) { return other.delivery(t, "novels", "second") },
		"another's own, mine":   func() (int, map[string]any) { return other.delivery(t, "novels", "mine") },
		"a key in another case": func() (int, map[string]any) { return p.delivery(t, "novels", "SECOND") },
	} {
		if status, got := ask(); status != http.StatusNotFound || got["code"] != "not_found" ||
			!strings.HasPrefix(fmt.Sprint(got["detail"]), "No such delivery is on record.") {
			t.Errorf("%s: %d %v", name, status, got)
		}
	}
}

func TestDeliveryOfPost(t *testing.T) {
	t.Parallel()
	s := newService(t)
	p, other := s.partner(t, "Partner", principal.Change{}), s.partner(t, "Other", principal.Change{})
	first := p.comment(t, "c1", "Genji", "")
	reply := p.comment(t, "c2", "Genji", `,"parent_uuid":"c1"`)
	testdb.Must(s.staff.RejectNovel(t.Context(), "Genji", "No."))(t)
	resolved := other.resolve(t, "Genji")
	for key, sent := range map[string]map[string]any{"c1": first, "c2": reply} {
		status, got := p.delivery(t, "posts", key)
		delete(got, "receivedAt")
		want := map[string]any{
			"operation": "posts", "idempotencyKey": key, "postId": sent["postId"], "threadId": sent["threadId"],
			"parentPostId": sent["parentPostId"],
			"novelId":      resolved["novelId"], "slug": "genji", "url": sent["url"], "state": "rejected",
			"postState": "visible", "reason": nil,
		}
		if diff := cmp.Diff(want, got); status != http.StatusOK || diff != "" {
			t.Errorf("%s: %d (-want +got)\n%s", key, status, diff)
		}
		if status, got := other.delivery(t, "posts", key); status != http.StatusNotFound {
			t.Errorf("another's %s: %d %v", key, status, got)
		}
		if status, got := p.delivery(t, "novels", key); status != http.StatusNotFound {
			t.Errorf("the novel that %s created is no delivery of a novel: %d %v", key, status, got)
		}
	}
}

func TestReconcile(t *testing.T) {
	t.Parallel()
	s := newService(t)
	p, other := s.partner(t, "Partner", principal.Change{}), s.partner(t, "Other", principal.Change{})
	p.upsert(t, "n1", "Genji")
	p.comment(t, "c1", "Genji", "")
	p.comment(t, "c2", "Genji", "")
	const path = "/api/integrations/deliveries/reconcile"
	for name, tc := range map[string]struct {
		who     *partner
		body    string
		missing []any
		present float64
	}{
		"posts": {
			p, `{"operation":"posts","idempotencyKeys":["z","c1","a","c2","z","n1","c1"]}`, []any{"z", "a", "n1"}, 2,
		},
		"quoted": {
			p, `{"operation":"posts","idempotencyKeys":["\"c1\"","c1","\"x\"","x"],"more":1}`, []any{`"x"`}, 1,
		},
		"novels":          {p, `{"operation":"novels","idempotencyKeys":["c1","n1"]}`, []any{"c1"}, 1},
		"all there":       {p, `{"operation":"novels","idempotencyKeys":["n1"]}`, []any{}, 1},
		"another partner": {other, `{"operation":"posts","idempotencyKeys":["c1","c2"]}`, []any{"c1", "c2"}, 0},
	} {
		got := tc.who.must(t, http.MethodPost, path, "", tc.body)
		if diff := cmp.Diff(map[string]any{"missing": tc.missing, "present": tc.present}, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}

	// The maximum number and length of keys, which exceed the 32 KB of a command.
	var body strings.Builder
	body.WriteString(`{"operation":"posts","idempotencyKeys":["c1"`)
	for i := range 999 {
		fmt.Fprintf(&body, `,"%0255d"`, i)
	}
	body.WriteString("]}")
	got := p.must(t, http.MethodPost, path, "", body.String())
	if missing, _ := got["missing"].([]any); len(missing) != 999 || got["present"] != 1. {
		t.Errorf("%d missing, %v present", len(missing), got["present"])
	}
}

func TestResolve(t *testing.T) {
	t.Parallel()
	s := newService(t)
	p, other := s.partner(t, "Partner", principal.Change{}), s.partner(t, "Other", principal.Change{})
	reviewed := s.partner(t, "Reviewed", principal.Change{Review: new(true)})
	p.upsert(t, "1", "Mine")
	p.upsert(t, "2", "Declined")
	reviewed.upsert(t, "1", "Waiting")
	testdb.Must(s.staff.RejectNovel(t.Context(), "Declined", "No."))(t)
	testdb.Must(s.staff.PublishNovel(t.Context(), "Host's", novel.Fields{}, ""))(t)
	testdb.Must(s.staff.RejectNovel(t.Context(), "Barred", "No."))(t)
	testdb.Must(s.staff.RejectNovel(t.Context(), "Free", "No."))(t)
	testdb.Must(s.staff.ApproveNovel(t.Context(), "Free", "Yes."))(t)
	before := s.events(t)
	for name, tc := range map[string]struct {
		who         *partner
		title, rule string
		known       bool
	}{
		"unknown":               {p, "Straße", "create", false},
		"unknown, under review": {reviewed, "Strasse", "pending", false},
		"own":                   {p, " MINE ", "update", true},
		"another's":             {other, "mine", "foreign", true},
		"own, pending":          {reviewed, "waiting", "pending", true},
		"another's, pending":    {p, "waiting", "foreign", true},
		"the host's":            {p, "host's", "canonical", true},
		"declined":              {p, "declined", "rejected", true},
		"another's declined":    {other, "declined", "rejected", true},
		"barred":                {p, "barred", "rejected", true},
		"free again":            {p, "free", "create", false},
	} {
		got := tc.who.resolve(t, tc.title)
		if got["rule"] != tc.rule || (got["novelId"] != nil) != tc.known || (got["slug"] != nil) != tc.known ||
			(got["url"] != nil) != tc.known {
			t.Errorf("%s: %v", name, got)
		}
		if tc.title == "Straße" && got["foldedTitle"] != "strasse" {
			t.Errorf("%s: %v", name, got)
		}
	}
	if after := s.events(t); after != before {
		t.Errorf("%d events were stored", after-before)
	}
	// An upsert has the announced outcome.
	for key, title := range map[string]string{"3": "Straße", "4": "Free"} {
		if got := p.upsert(t, key, title); got["created"] != true {
			t.Errorf("upsert: %v", got)
		}
	}
}

// TestDeliveryOfHiddenPost: partners see at once whether their post is hidden, and why.
func TestDeliveryOfHiddenPost(t *testing.T) {
	t.Parallel()
	s := newService(t)
	p := s.partner(t, "Partner", principal.Change{})
	id := uuid.MustParse(fmt.Sprint(p.comment(t, "k", "Genji", "")["postId"]))
	who := staff.AuthorName{IntegrationID: p.ID, ExternalUUID: "u"}
	check := func(after string, state string, reason any) {
		t.Helper()
		if status, got := p.delivery(t, "posts", "k"); status != http.StatusOK || got["postState"] != state ||
			got["reason"] != reason || got["state"] != "approved" {
			t.Errorf("after %s: %d %v", after, status, got)
		}
	}
	check("import", "visible", nil)
	testdb.Must(s.staff.HideAuthorPosts(t.Context(), who, "spam"))(t)
	check("hide all of the author's", "hidden", "spam")
	testdb.Must(s.staff.HidePost(t.Context(), id, "rude"))(t)
	check("hide by itself, too", "hidden", "rude")
	testdb.Must(s.staff.RestorePost(t.Context(), id, "fine"))(t)
	check("restore by itself", "visible", nil)
}
