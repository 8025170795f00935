// Package reference is the reference model of the projections, for tests: it folds the log one event at a time into
// plain maps, without batches, redelivery or SQL, and shares no code with package projections. The tables of the
// projections must hold what it says.
//
// A row is compared as text: a JSON object with the column names as members, in the canonical form of RFC 8785 but for
// numbers, which keep all their digits. A table is the sorted list of its rows.
//
// It applies every event, also those that an operator let a projection skip.
package reference
