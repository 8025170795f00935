// Package digests compares, table by table, three ways to come from the log to the tables of the projections: following
// it as it grows, rebuilding, and a naive fold in memory (package naive). All three must come to the same rows.
//
// A Story fills a service with a catalogue, comments and what staff do about them, over the interface and the command
// line that partners and staff use. Check works on any database to which nobody writes meanwhile.
package digests
