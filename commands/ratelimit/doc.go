// Package ratelimit limits what an integration may do: at most N commands in any 60 seconds, per integration and
// operation, over all replicas. Shares limits the concurrent requests of an integration in one replica.
//
// # Exact
//
// A permit counts for 60 seconds on the clock of the database. Who grants permits holds a lock that orders all grants
// of the window: the committer that of the log, because the permits are read, granted and stored in the transaction of
// the commands. A grant of a transaction that fails is not stored.
//
// A grant is a row with the running total of its window. So the permits of a minute are the difference of two rows, the
// last one and the first one of that minute, however many there are, and no row is ever updated.
//
// # Never early
//
// After RetryAfter a permit is free, unless another request took it first. A refusal is remembered until then, so that
// an integration beyond its limit costs no transaction. A new limit applies to the next command in every replica.
package ratelimit
