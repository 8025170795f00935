// Package ratelimit grants permits: at most N in any 60 seconds, per integration and operation, shared by all replicas.
//
// # What holds
//
//   - Exact: no 60 seconds on the clock of the database see more than the limit granted, summed over all replicas. It
//     is a sliding window, neither a token bucket nor a fixed window. The row lock in rate_limit_take puts takes in one
//     order, and each reads the clock while it holds the lock.
//   - Never early: after RetryAfter a permit is free, unless somebody else was faster.
//   - At limits below 100 there are no leases: every permit was granted by the database at that moment, and comes back
//     60 seconds later to the microsecond. In windows with more than 120 charges those of the same half second come
//     back together, 60 seconds after the last of them.
//
// # What makes it cheap
//
// Requests for one window that arrive while a call is under way form the group of the next call: no timer, so a lone
// request waits for nobody. In a busy window a call also takes a lease: one percent of what then remains, spent from
// memory for a fifth of a second. The database counts the lease from the moment at which it ends, so that its last use
// is covered, and gets back what is left over with the next call or soon after. The lease is measured on the clock of
// this process from before the call was sent, so it ends here before it ends there. A refusal is remembered for a tenth
// of a second, so that a client that hammers at its limit costs ten calls a second and no more.
//
// # What goes wrong, and then
//
// A call whose outcome is unknown may have charged permits that nobody got, or not have given back what it should have:
// too few are granted for a minute, never too many. The same goes for a replica that dies, for the rest of its lease.
// Permits live in ordinary rows, but the pool runs with synchronous_commit=off: when the database server crashes, the
// permits of its last fraction of a second may be forgotten. A change of the limit holds for the next take everywhere;
// leases of other replicas may run on for a fifth of a second.
package ratelimit
