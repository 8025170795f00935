package projections

// All returns the projections that follow the log asynchronously, one line each.
func All() []Projection {
	return []Projection{
		Posts{},
		Authors{},
		Novels{},
		Activity{},
	}
}
