//go:build race

package admin_test

// slow is how many times longer the race detector takes.
const slow = 8
