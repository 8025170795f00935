// Package webhooks sends the change feed to endpoints of partners, in the form of Standard Webhooks 1.0.0.
// docs/partners.md describes it to partners.
//
// A webhook is a cursor over the feed that is pushed: a row with the address and a position in the log. The changes
// behind the position are sent one after the other. An accepted change moves the position, a refused one pauses the
// webhook: a second first, then twice as long each time, an hour at most, or as long as the endpoint asks
// (Retry-After). Five days of failures disable it.
//
// A visit is the work of one worker on one webhook: up to twenty changes. It holds a lease, which is longer than an
// attempt may take and is renewed with each save, so that no transaction stays open while an endpoint thinks, and
// another replica continues after a crash. A change of the settings ends the lease, and with it the visit: at most the
// request under way still follows the old ones.
//
// Nothing is sent that a failover to a synchronous standby would lose: the feed waits until the standby has what it
// read. A visit may read before a failover and save after it, so each save checks that the log has the change there,
// and that the position is still where the visit began. Otherwise nothing is saved, and the change is sent again under
// the same id: delivery is at least once.
package webhooks
