// Package rebase makes an event log readable that was restored from a logical dump into another PostgreSQL cluster.
//
// # Why
//
// The log is ordered by transaction ids, which belong to one cluster. A new cluster starts at small numbers, so
// restored events would stay invisible to readers, and new events would be ordered before them.
//
// # How
//
// All events move into the transaction id events.Frozen, at positions 0, 1, 2, … in the order that they had. PostgreSQL
// reserves that id in every cluster and never assigns it. It is older than every other id, so these events are settled
// at once and all new events come after them. For a sealed event the new position is its log index. In a second move,
// events that moved before keep their positions.
//
// All references to positions are translated too: every pair of columns …transaction_id (xid8) and …position (integer)
// of every table in the database. Of the ledger only ledger_seals and ledger_state change. Entries, tiles and
// checkpoints stay the same, because a leaf contains neither transaction id nor position.
//
// # Failure
//
// The move is one transaction under an exclusive lock on the log. Before and after it, the whole tree is hashed from
// the stored events; a difference aborts it. Any failure before the commit leaves the database unchanged.
package rebase
