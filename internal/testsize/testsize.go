// Package testsize says how much a test does.
package testsize

import "testing"

// Of returns full, or brief under -short, which is for those who do not ask about the result itself: the race detector
// looks at each kind of access, and slows each of them down.
func Of(full, brief int) int {
	if testing.Short() {
		return brief
	}
	return full
}
