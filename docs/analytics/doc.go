// Package analytics makes docs/analytics.md: what the views say about themselves, and example queries (the .sql files
// here) with their answers on the comments in sample.csv. Its tests keep the page true.
package analytics

//go:generate go test -count=1 -run ^TestPageIsUpToDate$ . -update
