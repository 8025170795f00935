// Package ratelimit limits what an integration may do. A Limiter grants permits: at most N in any 60 seconds, per
// integration and operation, shared by all replicas. Shares limits the concurrent requests of an integration in one
// replica.
//
// # Guarantees of a Limiter
//
//   - Exact: in any 60 seconds by the database's clock, all replicas together grant at most the limit. The window
//     slides; it is neither a token bucket nor a fixed window. The row lock in rate_limit_take orders the takes, and
//     each one reads the clock while it holds the lock.
//   - Never early: after RetryAfter a permit is free, unless another request took it first.
//   - Limits below 100 have no leases: the database grants each permit, and the permit is free again 60 seconds later
//     to the microsecond. A charge is a number of permits with the time from which their 60 seconds count. In windows
//     with more than 120 charges, the permits of one half second become free together, 60 seconds after the last of
//     them.
//
// # Cost
//
// Requests for one window that arrive while a database call runs share the next call. There is no timer, so a single
// request does not wait. In a busy window a call also takes a lease: one percent of the remaining permits, which the
// replica grants from memory for 200 ms. The database counts the lease from its end, so that its last use is covered.
// Unused permits go back with the next call or soon after. The replica measures the lease with its own clock from
// before the call was sent, so the lease ends in the replica before it ends in the database. A refusal is cached for
// 100 ms, so a client that keeps sending at its limit costs at most ten calls a second.
//
// # Failures
//
// A call with an unknown outcome may have charged permits that no request got, or may not have returned permits. Then
// too few permits are granted for a minute, never too many. A crashed replica loses the rest of its lease in the same
// way. Permits are stored in ordinary rows, but the pool runs with synchronous_commit=off: a crash of the database
// server may lose the permits of the last fraction of a second. A new limit applies to the next take in every replica;
// leases of other replicas may continue for 200 ms.
package ratelimit
