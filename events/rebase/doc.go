// Package rebase makes an event log readable that was restored from a logical dump into another PostgreSQL cluster.
//
// # Why
//
// The order of the log is that of transaction ids, and these belong to a cluster. A new one starts at small numbers:
// restored events would stay invisible to readers, and what is appended would be ordered in front of them.
//
// # How
//
// All events move into the transaction id events.Frozen, at positions 0, 1, 2, … in the order that they had. PostgreSQL
// reserves that id and gives it to no transaction, in no cluster: it is older than every other one, so that its events
// are settled at once and everything that is appended comes behind them. For a sealed event the new position is its log
// index. A log that moves again keeps the positions of everything that moved before.
//
// Whatever else names a place in the log is translated in the same way: every pair of columns …transaction_id (xid8)
// and …position (integer) of every table, whoever made it. Of the ledger only ledger_seals and ledger_state change. No
// entry, tile or checkpoint does: a leaf holds neither transaction id nor position.
//
// # Failure
//
// It is one transaction, under a lock that keeps everybody from the log. Before and after, the whole tree is hashed
// from the events as they are stored; a difference ends it. Until the commit nothing has changed, whatever ends it.
package rebase
