//go:build race

package committer_test

// slow is how many times longer the race detector takes.
const slow = 8
