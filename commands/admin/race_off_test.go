//go:build !race

package admin_test

const slow = 1
