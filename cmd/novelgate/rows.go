package main

import (
	"errors"
	"fmt"
	"math"
)

// RowsFlag bounds a list.
type RowsFlag struct {
	Limit rowLimit `default:"100" help:"At most so many; 0 shows all."`
}

// rowLimit is how many rows a list has at most; 0 is any number.
type rowLimit int

// Validate refuses what is no number of rows; kong calls it.
func (l rowLimit) Validate() error {
	if l < 0 {
		return errors.New("must not be negative; 0 shows all")
	}
	return nil
}

// sought is how many rows to read: one more than are shown tells that there are more.
func (l rowLimit) sought() int {
	if l == 0 || l == math.MaxInt {
		return math.MaxInt
	}
	return int(l) + 1
}

// shown returns the rows within the limit, and tells people when there are more.
func shown[T any](in *invocation, list []T, limit rowLimit) []T {
	if limit == 0 || len(list) <= int(limit) {
		return list
	}
	fmt.Fprintf(in.stderr, "Only the first %d; --limit shows more.\n", limit)
	return list[:limit]
}
