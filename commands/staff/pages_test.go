package staff_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"novelgate/aggregates/principal"
	"novelgate/commands/staff"
)

// TestPagesAreStable goes through both lists page by page while rows are added: what was there at first comes exactly
// once, in order, though many rows share a moment.
func TestPagesAreStable(t *testing.T) {
	t.Parallel()
	s := setup(t)
	clock := noon
	s.Now = func() time.Time { return clock }
	add := func(n int) (integrations, keys []uuid.UUID) {
		for i := range n {
			if i%3 == 0 {
				clock = clock.Add(time.Microsecond)
			}
			made, err := s.CreateIntegration(t.Context(), "Partner "+uuid.NewString(), principal.Change{})
			if err != nil {
				t.Fatal(err)
			}
			key, _, err := s.IssueKey(t.Context(), made.ID, 0)
			if err != nil {
				t.Fatal(err)
			}
			integrations, keys = append(integrations, made.ID), append(keys, key.ID)
		}
		return integrations, keys
	}
	wantIntegrations, wantKeys := add(11)
	for _, size := range []int{1, 2, 5} {
		gotIntegrations, gotKeys := []uuid.UUID{}, []uuid.UUID{}
		var at, behind staff.Place
		for range len(wantIntegrations)/size + 1 {
			list, err := s.ListIntegrations(t.Context(), at, size)
			if err != nil || len(list) > size {
				t.Fatalf("%d integrations, %v", len(list), err)
			}
			for _, i := range list {
				gotIntegrations, at = append(gotIntegrations, i.ID), i.Place()
			}
			keys, err := s.ListKeys(t.Context(), uuid.Nil, behind, size)
			if err != nil || len(keys) > size {
				t.Fatalf("%d keys, %v", len(keys), err)
			}
			for _, k := range keys {
				gotKeys, behind = append(gotKeys, k.ID), k.Place()
			}
			add(1)
		}
		if diff := cmp.Diff(wantIntegrations, gotIntegrations[:len(wantIntegrations)]); diff != "" {
			t.Errorf("integrations by %d (-want +got):\n%s", size, diff)
		}
		if diff := cmp.Diff(wantKeys, gotKeys[:len(wantKeys)]); diff != "" {
			t.Errorf("keys by %d (-want +got):\n%s", size, diff)
		}
	}
	all, err := s.ListIntegrations(t.Context(), staff.Place{}, 0)
	if err != nil || len(all) <= len(wantIntegrations) {
		t.Errorf("%d in all, %v", len(all), err)
	}
}
