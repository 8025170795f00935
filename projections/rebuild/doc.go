// Package rebuild builds the tables of a projection anew from the log, beside those in use, and switches to them.
//
// # Steps
//
//	begin    a schema of its own (posts_2) with tables of the same structure as those in public, which migrations made
//	load     projections.Bulk only: several workers copy ranges of the old log into them, while they have no index
//	index    indexes and constraints, made concurrently; then the events that change what others added, in order
//	follow   the events since, in log order
//	switch   one transaction: hold the checkpoint, apply what is left, exchange the tables, repoint the views, drop the old
//
// Every writing transaction is short, because the oldest one running holds back all readers of the log. Each
// records how far it got, so a rebuild that was interrupted, by kill -9 too, goes on from there.
//
// # Readers
//
// A statement that names a table or a view sees the rows of one generation: before the switch commits it reads the old
// tables, or waits for the lock; afterwards the same name means the new ones. Views are bound to tables, not to names; they
// are replaced in the same transaction and keep their owner, grants and comments. The switch waits for locks for
// a moment only and then lets everybody pass before it tries again, so nobody waits long behind it.
//
// # Who may build
//
// One process at a time: it holds an advisory lock, and its every transaction checks that it is still the builder on
// record, in case that its connection with the lock has broken unnoticed and another one has taken over.
package rebuild
