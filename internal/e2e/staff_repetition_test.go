package e2e_test

import (
	"encoding/json"
	"testing"
)

// moved is what a move of a novel answers with.
type moved struct{ NovelID, State string }

func TestRefusedMoveLeavesItsKeyFree(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	d := newDesk(t, s.NewStaff(t))
	novel, reason, key := "/api/admin/novels/"+d.novelID, Fields{"reason": "test"}, Key()
	d.ada.Post(t, novel+"/reject", Key(), reason).WantJSON(t, 200, &moved{})
	for _, body := range []Fields{reason, {"reason": ""}} {
		if response := d.ada.Post(t, novel+"/reject", key, body); response.Status != 409 && response.Status != 400 {
			t.Errorf("status %d, want a refusal\n%s", response.Status, response.Body)
		}
	}
	d.ada.Post(t, novel+"/approve", Key(), reason).WantJSON(t, 200, &moved{})
	response := d.ada.Post(t, novel+"/reject", key, reason)
	response.WantReplayed(t, false, false)
	var now moved
	if response.WantJSON(t, 200, &now); now.State != "rejected" {
		t.Errorf("state %s, want rejected", now.State)
	}
}

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

// TestRacingMoves lets many make the same move, each for themselves: one does, and the others are told that it was
// made.
func TestRacingMoves(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	ada := s.NewStaff(t)
	for _, move := range []string{"approve", "reject", "publish"} {
		t.Run(move, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, ada)
			answers := together(12, func(int) Response {
				return ada.Post(t, "/api/admin/novels/"+d.novelID+"/"+move, Key(), Fields{"reason": "test"})
			})
			wantStatuses(t, map[int]int{200: 1, 409: 11}, answers)
			for _, answer := range answers {
				if answer.Status == 409 {
					problem := answer.WantProblem(t, 409, "invalid_transition")
					wantBothStates(t, problem.Detail, aim[move], aim[move])
				}
			}
			if history, _ := d.standing(t).Novel["history"].([]any); len(history) != 2 {
				t.Errorf("%d events, want that of the creation and one move", len(history))
			}
		})
	}
}
