// Package rebuild builds the tables of a projection anew from the log, beside those in use, and switches to them.
//
// # Steps
//
//	begin    a schema of its own (posts_2) with tables of the same structure as those in public, which migrations made
//	load     projections.Bulk only: the rows that old events add, while the tables have no index
//	index    indexes and constraints, made concurrently; then the old events that do more than add rows
//	follow   the events since
//	switch   one transaction: hold the checkpoint, apply what is left, exchange the tables, repoint the views, drop the
//	         old ones
//
// Events are applied by projections.CatchUp, as those of live tables are. Every writing transaction is short, because
// the oldest one running holds back all readers of the log. Each records how far it got, so a rebuild that was
// interrupted, by kill -9 too, goes on from there.
//
// # Readers
//
// A statement that names a table or a view sees the rows of one generation: before the switch commits it reads the old
// tables, or waits for the lock; afterwards the same name means the new ones. Views are bound to tables, not to names;
// they are replaced in the same transaction and keep their owner, grants and comments. The switch waits for locks for a
// moment only and then lets everybody pass before it tries again, so nobody waits long behind it.
//
// # Who may build
//
// One process at a time: it holds an advisory lock, and its every transaction checks that it is still the builder on
// record, in case that its connection with the lock has broken unnoticed and another one has taken over.
//
// # Comparing
//
// Compare builds tables in the same way and switches nothing: it compares them with the live ones and drops them.
//
//	create   a schema of its own (posts_replayed) with tables and indexes; what a crash has left there is dropped before
//	replay   the log up to where the live tables are, which go on: so a few times, as less and less is left
//	snapshot a read-only transaction that sees the live tables at one position; the replay goes up to exactly that, as
//	         the transaction sees the log. Nobody else writes the new tables, so they need not be seen by the same
//	         snapshot
//	compare  both tables row by row, in the order of their keys
package rebuild
