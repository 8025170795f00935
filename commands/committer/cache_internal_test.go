package committer

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestRecent: the entries that were put or found last are there as they were put, and there are never too many.
func TestRecent(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const limit = 4
		r := newRecent[int, int](limit)
		model, last := map[int]int{}, []int{} // all that was put; the keys that must be there, the latest last
		touch := func(key int, stay bool) {
			if at := slices.Index(last, key); at >= 0 {
				last = slices.Delete(last, at, at+1)
			}
			if stay {
				last = append(last, key)
				last = last[max(0, len(last)-limit):]
			}
		}
		for range rapid.IntRange(0, 50).Draw(t, "steps") {
			key := rapid.IntRange(0, 9).Draw(t, "key")
			switch value, found := r.get(key); rapid.SampledFrom([]string{"put", "get", "drop"}).Draw(t, "step") {
			case "put":
				model[key] = len(model) + value + 1
				r.put(key, model[key])
				touch(key, true)
			case "get":
				if want, put := model[key]; found && (!put || value != want) || !found && slices.Contains(last, key) {
					t.Fatalf("%d: %d, %v, want %d, %v; last %v", key, value, found, want, put, last)
				}
				touch(key, found)
			case "drop":
				r.drop(key)
				delete(model, key)
				touch(key, false)
			}
			if n := len(r.young) + len(r.old); n > 2*limit {
				t.Fatalf("%d entries", n)
			}
		}
	})
}
