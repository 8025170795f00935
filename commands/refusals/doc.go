// Package refusals keeps the last refused commands of each integration, so that partners and staff see why a delivery
// failed. What it keeps does not derive from events, and is no promise: a crash or a flood loses some.
//
// A refused command adds a record to a bounded queue in memory (record.go), after its answer. One goroutine stores the
// queue once a second with one INSERT, and prunes the table (recorder.go). Records hold nothing that a request has in
// its body: of a message they keep the text of the rule, without what it quotes.
package refusals
