package committer

import (
	"testing"

	"pgregory.net/rapid"
)

// TestRecent: an entry is as it was put last or gone, and those that were put or found last are there.
func TestRecent(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const limit = 4
		r := newRecent[int, int](limit)
		model := map[int]int{}
		var order []int // what is there for certain, the latest last
		touch := func(key int) {
			order = append(without(order, key), key)
			order = order[max(0, len(order)-limit):]
		}
		key := rapid.IntRange(0, 9)
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				k, v := key.Draw(t, "key"), rapid.Int().Draw(t, "value")
				r.put(k, v)
				model[k] = v
				touch(k)
			},
			"get": func(t *rapid.T) {
				k := key.Draw(t, "key")
				if v, ok := r.get(k); ok {
					if want, stored := model[k]; !stored || v != want {
						t.Fatalf("%d: %d, want %d", k, v, want)
					}
					touch(k)
				}
			},
			"drop": func(t *rapid.T) {
				k := key.Draw(t, "key")
				r.drop(k)
				delete(model, k)
				order = without(order, k)
			},
			"clear": func(*rapid.T) {
				r.clear()
				clear(model)
				order = nil
			},
			"": func(t *rapid.T) {
				if n := len(r.young) + len(r.old); n > 2*limit {
					t.Fatalf("%d entries", n)
				}
				for _, k := range order {
					_, young := r.young[k]
					_, old := r.old[k]
					if !young && !old {
						t.Fatalf("%d is gone, although it is among the last: %v", k, order)
					}
				}
			},
		})
	})
}

func without(list []int, key int) []int {
	var rest []int
	for _, k := range list {
		if k != key {
			rest = append(rest, k)
		}
	}
	return rest
}
