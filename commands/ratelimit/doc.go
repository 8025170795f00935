// Package ratelimit limits what an integration may do: at most N commands in any 60 seconds, per integration and
// operation, over all replicas. Shares limits the concurrent requests of an integration in one replica.
//
// # Exact
//
// Permits are counted by the second of the database's clock in which they were granted, and count until 60 seconds
// after the end of that second: so a window may be one second longer, never shorter. Who grants permits holds a lock
// that orders all grants of the window: the committer that of the log, because the permits are read, granted and stored
// in the transaction of the commands. A grant of a transaction that fails is not stored.
//
// # Never early
//
// After RetryAfter a permit is free, unless another request took it first. A refusal is remembered until then, so that
// an integration beyond its limit costs no transaction. A new limit applies to the next command in every replica.
package ratelimit
