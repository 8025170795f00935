package committer

// recent is a map of what was added or used last: at least limit entries, at most twice as many.
type recent[K comparable, V any] struct {
	limit      int
	young, old map[K]V // when young is full, it becomes old, and what was old is forgotten
}

func newRecent[K comparable, V any](limit int) recent[K, V] {
	return recent[K, V]{limit: limit, young: map[K]V{}}
}

// get returns an entry, which thereby becomes young again.
func (r *recent[K, V]) get(key K) (V, bool) {
	if value, ok := r.young[key]; ok {
		return value, true
	}
	value, ok := r.old[key]
	if ok {
		r.put(key, value)
	}
	return value, ok
}

func (r *recent[K, V]) put(key K, value V) {
	if len(r.young) >= r.limit {
		r.young, r.old = make(map[K]V, r.limit), r.young
	}
	r.young[key] = value
}

func (r *recent[K, V]) drop(key K) {
	delete(r.young, key)
	delete(r.old, key)
}

func (r *recent[K, V]) clear() { r.young, r.old = map[K]V{}, nil }
