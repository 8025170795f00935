// Package naive says a second time, in another way, what the tables of the projections must hold: it goes through the
// log one event at a time, keeps plain maps in memory, and shares no code with package projections, which it is the
// measure of. It takes no account of batches, redelivery or speed. Only tests and measurements use it.
//
// A row is compared as text: a JSON object with the column names as members, in the canonical form of RFC 8785 but for
// numbers, which keep all their digits. A table is the sorted list of its rows.
//
// It knows nothing of events that an operator let a projection skip.
package naive
