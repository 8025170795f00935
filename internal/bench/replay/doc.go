// Package replay measures how fast projections read the log: a rebuild, the catch-up of a live projection, and a plain
// loop that only reads, which neither can be faster than with one connection.
package replay
