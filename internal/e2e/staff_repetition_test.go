package e2e_test

import (
	"encoding/json"
	"testing"
)

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
