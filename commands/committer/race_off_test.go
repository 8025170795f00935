//go:build !race

package committer_test

const slow = 1
