// Package webhooks sends the change feed to endpoints of partners, in the form of Standard Webhooks 1.0.0.
// docs/changes.md describes it to partners.
//
// # Outbox
//
// The log is the outbox. A webhook has a position in the log, up to which every change of its types has been attempted.
// Each attempted change has a row. If the attempt failed, the row has the time of the next one. The position moves on
// in either case. After twenty failures without a success the endpoint gets one request every five minutes, so the
// position hardly moves and few rows are added. The first success makes all retries due. A change is given up after all
// waits, and only if the endpoint has accepted another one since its first attempt: an endpoint that was down gets all
// changes, unless it refuses them again after a first success.
//
// Nothing is sent that a failover to a synchronous standby would lose: the feed waits until the standby has what it
// read. A position moves with the log through every failover and restore. A worker may read before a failover and save
// after it, so each save checks that the log has the change there, and that the position is still where the worker
// began.
//
// # Workers
//
// Each replica has a worker. It leases a webhook: the row has the holder and a deadline, and no transaction stays open.
// Each outcome is saved with one statement that saves nothing when the lease is lost. When a partner changes a webhook,
// its lease ends, and so does the visit: the worker checks the lease after each read and with each save, so at most one
// request still follows the old settings. If a worker is killed between a request and its save, the change is sent
// again with the same webhook-id: delivery is at least once.
//
// Endpoints whose last attempt was slow have their own limit, so they do not delay the others.
//
// # Where requests go
//
// The IP address is checked when the connection is made, after the name is resolved: only public addresses, and those
// that the operator allows. The worker follows no redirects, uses no proxy of the environment, and shows no answer's
// body.
package webhooks
