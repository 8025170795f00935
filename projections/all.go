package projections

import (
	"fmt"
	"strings"
)

// All returns the projections that follow the log asynchronously, one line each.
func All() []Projection {
	return []Projection{
		Posts{},
		Authors{},
		Novels{},
		Activity{},
	}
}

// Find returns the projection of a name, and whether it is written in the transaction that appends. It fails with
// ErrUnknownProjection.
func Find(name string) (p Projection, inline bool, err error) {
	for _, p := range All() {
		if p.Name() == name {
			return p, false, nil
		}
	}
	for _, p := range Inline() {
		if p.Name() == name {
			return p, true, nil
		}
	}
	var names []string
	for _, p := range append(All(), Inline()...) {
		names = append(names, p.Name())
	}
	return nil, false, fmt.Errorf("%w %q: there are %s", ErrUnknownProjection, name, strings.Join(names, ", "))
}
